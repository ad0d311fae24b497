"""Promises of the core on graphs, batches and rates that nobody chose; `make fuzz` tries more of them."""

import os

import pytest

pytest.importorskip("hypothesis")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rade
from rade.correction import Adjacency
from rade.distribution import Distribution
from rade.testing.aggregators import ALL, EXACT
from rade.testing.oracle import AllViews, error, one_hot
from rade.views import draw

EXAMPLES = int(os.environ.get("RADE_FUZZ", "0"))


def tried(few: int) -> settings:
    """So many examples in `make test`, always the same ones."""
    return settings(max_examples=EXAMPLES or few, derandomize=EXAMPLES == 0, database=None, deadline=None)


@st.composite
def graphs(draw, most_nodes: int = 12, most_graphs: int = 1) -> rade.Graph:
    """Simple graphs, isolated nodes and none at all among them; several of them are a batch, in any order of nodes."""
    sizes = draw(st.lists(st.integers(1, most_nodes), min_size=1, max_size=most_graphs))
    batch = torch.repeat_interleave(torch.tensor(sizes))
    place = torch.tensor(draw(st.permutations(range(len(batch)))) if most_graphs > 1 else range(len(batch)))
    pairs = [(a, b) for a in range(len(batch)) for b in range(a + 1, len(batch)) if batch[a] == batch[b]]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs))) if pairs else []
    low, high = place[torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()]
    both = torch.stack([torch.cat([low, high]), torch.cat([high, low])])
    return rade.Graph.from_edge_index(both, len(batch), batch[torch.argsort(place)])


def rates() -> st.SearchStrategy[rade.Rates]:
    """p from 0 to 0.95 and q from 0 to 1, both ends included, and nothing so small that rounding decides."""
    drop = st.one_of(st.just(0.0), st.floats(0.01, 0.95))
    add = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.001, 0.999))
    return st.builds(rade.Rates, drop, add)


@tried(25)
@given(graphs(most_nodes=4), rates(), st.sampled_from([rade.Variant.OF, rade.Variant.OFS]), st.sampled_from(EXACT))
def test_the_mean_over_all_views_is_what_inference_computes(graph, at, variant, aggregator):
    views = AllViews(Distribution(graph, at, variant))
    features = one_hot(graph, aggregator.heads)
    found = views.mean(views.aggregate(aggregator.on(graph), features))
    target = Adjacency(graph, views.distribution).aggregate(aggregator.alone(graph), features)
    assert error(found, target) < max(aggregator.tolerance, 1e-8) or float((found - target).abs().max()) < 1e-12


@tried(40)
@given(graphs(most_graphs=3), rates(), st.sampled_from(rade.Variant), st.sampled_from(ALL), st.integers(0, 2**31))
def test_all_that_is_computed_is_finite_and_linear_in_the_messages(graph, at, variant, aggregator, seed):
    distribution, coefficients = Distribution(graph, at, variant), aggregator.alone(graph)
    view = draw(distribution, torch.Generator().manual_seed(seed))
    x, y = aggregator.messages(graph, seed=1), aggregator.messages(graph, seed=2)
    for over in (Adjacency(graph, distribution, view), Adjacency(graph, distribution)):
        together, one, other = (over.aggregate(coefficients, given) for given in (2 * x - y, x, y))
        assert bool(together.isfinite().all())
        scale = 1 + float(together.abs().max())
        torch.testing.assert_close(together, 2 * one - other, rtol=1e-9, atol=1e-9 * scale)
