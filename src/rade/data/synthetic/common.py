"""How generated tensors become a data set."""

from collections.abc import Mapping
from typing import Any

from rade.data.catalogue import catalogue
from rade.data.dataset import Dataset, Provenance
from rade.data.graphs import GraphList, node_data
from rade.data.splits import Splits
from rade.data.tables import Tables


def synthetic_dataset(name: str, tables: Tables, splits: Splits, classes: int, options: Mapping[str, Any]) -> Dataset:
    """A generated data set; its options are its provenance."""
    entry = catalogue()[name]
    return Dataset(
        name=name,
        level=entry.level,
        graphs=GraphList(tables) if entry.level == "graph" else (node_data(tables),),
        metric=entry.metric,
        loss=entry.loss,
        classes=classes,
        features=tables.x.size(1),
        encoder=entry.encoder,
        provenance=Provenance(entry.source, entry.licence, options=options),
        splits=splits,
        density=tables.density(),
    )
