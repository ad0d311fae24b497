"""Small data for the tests of training."""

from dataclasses import replace

import pytest
import torch

from rade.data import Dataset, GraphList, Words, load
from rade.train.backbones import ATOM_FEATURE_SIZES


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Sums in a fixed order, and no fight for cores between test processes."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def papers() -> Dataset:
    """A node task of a few hundred nodes with sparse features."""
    return load("csbm", nodes=400, content=Words(200), classes=5, labelled=30, validation=0.2)


@pytest.fixture(scope="session")
def paths() -> Dataset:
    """A graph task of a hundred small graphs."""
    return load("far-pair", graphs=100, length=4, pendants=2)


@pytest.fixture(scope="session")
def molecules(paths) -> Dataset:
    """The same graphs with categorical atom features and three labels each, a fifth of them unknown."""
    generator = torch.Generator().manual_seed(0)
    tables = paths.graphs.tables
    nodes = tables.x.size(0)
    atoms = torch.stack([torch.randint(size, (nodes,), generator=generator) for size in ATOM_FEATURE_SIZES], dim=1)
    labels = (torch.rand(100, 3, generator=generator) < 0.5).float()
    labels[torch.rand(100, 3, generator=generator) < 0.2] = torch.nan
    graphs = GraphList(replace(tables, x=atoms, y=labels))
    kind = {"loss": "multilabel", "metric": "average-precision", "encoder": "atom", "classes": 3, "features": 9}
    return replace(paths, graphs=graphs, **kind)
