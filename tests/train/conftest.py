"""Small data for the tests of training."""

import pytest
import torch

from rade.data import Dataset, load


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Sums in a fixed order, and no fight for cores between test processes."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def papers() -> Dataset:
    """A node task of a few hundred nodes with sparse features."""
    return load("csbm", nodes=400, words=200)


@pytest.fixture(scope="session")
def paths() -> Dataset:
    """A graph task of a hundred small graphs."""
    return load("far-pair", graphs=100, length=4, pendants=2)
