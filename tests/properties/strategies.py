"""Random graphs, batches and rates, and how many of them are tried."""

import os

import torch
from hypothesis import settings
from hypothesis import strategies as st

import rade

# As in tests/fuzz: a fixed small share in every test run, as many as RADE_FUZZ says with `make fuzz`.
EXAMPLES = int(os.environ.get("RADE_FUZZ", "0"))


def tried(few: int) -> settings:
    """So many examples in `make test`, always the same ones."""
    return settings(max_examples=EXAMPLES or few, derandomize=EXAMPLES == 0, database=None, deadline=None)


@st.composite
def graphs(draw, most_nodes: int = 12, most_graphs: int = 1) -> rade.Graph:
    """Simple undirected graphs, isolated nodes and none at all among them; several of them are a batch."""
    sizes = draw(st.lists(st.integers(1, most_nodes), min_size=1, max_size=most_graphs))
    edges, batch, first = [], [], 0
    for number, size in enumerate(sizes):
        pairs = [(a, b) for a in range(first, first + size) for b in range(a + 1, first + size)]
        edges += draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs))) if pairs else []
        batch += [number] * size
        first += size
    low, high = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    both = torch.stack([torch.cat([low, high]), torch.cat([high, low])])
    return rade.Graph.from_edge_index(both, first, torch.tensor(batch) if most_graphs > 1 else None)


def rates() -> st.SearchStrategy[rade.Rates]:
    """p from 0 to 0.95 and q from 0 to 1, both ends included, and nothing so small that rounding decides."""
    drop = st.one_of(st.just(0.0), st.floats(0.01, 0.95))
    add = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.001, 0.999))
    return st.builds(rade.Rates, drop, add)


VARIANTS = st.sampled_from(list(rade.Variant))
SEEDS = st.integers(0, 2**31)
