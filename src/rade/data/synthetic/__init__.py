"""Embedded tasks: seeded generators that need no file and no network."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rade.data.catalogue import Entry
from rade.data.dataset import Dataset
from rade.data.errors import DataError
from rade.data.synthetic.csbm import Clouds, Words, csbm
from rade.data.synthetic.far import far_pair
from rade.data.synthetic.ring import ring_transfer
from rade.data.synthetic.tree import tree_neighbors_match

GENERATORS: Mapping[str, Callable[..., Dataset]] = {
    "csbm": csbm,
    "ring-transfer": ring_transfer,
    "tree-neighbors-match": tree_neighbors_match,
    "far-pair": far_pair,
}


def generate(entry: Entry, options: Mapping[str, Any]) -> Dataset:
    """The synthetic data set of an entry; options are the arguments of its generator."""
    generator = GENERATORS[entry.name]
    known = inspect.signature(generator).parameters
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise DataError(f"{entry.name} has no option {', '.join(unknown)}; its options are {', '.join(known)}")
    return generator(**options)


__all__ = ["GENERATORS", "Clouds", "Words", "csbm", "far_pair", "generate", "ring_transfer", "tree_neighbors_match"]
