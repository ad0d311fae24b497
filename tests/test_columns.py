"""Columns that all targets share: which pairs they stand for, and that they estimate sums over all non-neighbors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import rade.nn
from rade import Correction, Graph, Law, Rates
from rade.graph.nodes import Nodes
from rade.graph.operator import Operator
from rade.moments.attention import denominator, scores
from rade.moments.attention.columns import ColumnOthers, draw_columns
from rade.moments.attention.delta_law import DeltaLaw
from rade.testing.aggregators import normal
from rade.testing.oracle import adjacency, error, nonedges
from zoo import random_edges, seeded

GRAPH = Graph.from_edge_index(random_edges(30, 60), 30)
RATES = Rates(0.3, 0.1)
LAYERS = {
    "GATv2Conv": lambda: rade.nn.GATv2Conv(6, 4, heads=2),
    "TransformerConv": lambda: rade.nn.TransformerConv(6, 4, heads=2),
    "AGNNConv": lambda: rade.nn.AGNNConv(),
}


def scores_of(name: str, graph: Graph = GRAPH) -> scores.FeatureScores:
    found = seeded(LAYERS[name]).double().sent(None, graph, normal(graph.num_nodes, 6)).coefficients.scores
    assert isinstance(found, scores.FeatureScores)
    return found


def columns(count: int, seed: int = 0):
    return draw_columns(GRAPH, count, torch.Generator().manual_seed(seed), torch.double)


def law_by(name: str, count: int, seed: int = 0) -> DeltaLaw:
    return DeltaLaw(scores_of(name), RATES, lambda of, shift: ColumnOthers(of, shift, columns(count, seed)))


def test_columns_stand_for_all_non_neighbors():
    """Distinct nodes, never a neighbor or the node itself; where one is left, they count as many as there are."""
    drawn = columns(12)
    assert drawn.nodes.unique().numel() == 12
    assert torch.equal(drawn.times > 0, nonedges(GRAPH)[:, drawn.nodes])
    assert error(drawn.times.sum(1), GRAPH.nonneighbors.double()) <= 1e-12


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("cached", "large"), [(2**18, 2**25), (40, 2**25), (40, 0)])
def test_a_table_has_the_scores_of_its_pairs(name, cached, large, monkeypatch):
    """Whole, in parts, and in parts that are computed again in the backward pass; with their gradients."""
    monkeypatch.setattr(scores, "CACHED", cached)
    monkeypatch.setattr(scores, "LARGE", large)
    nodes = torch.tensor([3, 7, 20])
    target, source = torch.cartesian_prod(torch.arange(30), nodes).unbind(1)
    x = normal(30, 6).requires_grad_()
    conv = seeded(LAYERS[name]).double()
    found = conv.sent(None, GRAPH, x).coefficients.scores.table(nodes)
    expected = conv.sent(None, GRAPH, x).coefficients.scores.at(target, source).view(30, 3, -1).transpose(1, 2)
    assert error(found, expected) <= 1e-12
    slopes = [torch.autograd.grad(values.sin().sum(), x)[0] for values in (found, expected)]
    assert error(*slopes) <= 1e-10


@pytest.mark.parametrize("name", LAYERS)
def test_all_columns_are_all_non_neighbors(name):
    """With every node as a column nothing is estimated: moments are those of the list."""
    ours, listed = law_by(name, 30), DeltaLaw(scores_of(name), RATES, denominator._all_listed)
    x = normal(30, scores_of(name).heads, 3, seed=2)
    for what in ("edge_mean", "edge_variance", "loop_mean"):
        assert error(getattr(ours, what)(), getattr(listed, what)()) <= 1e-10
    for what in ("nonedge_mean", "nonedge_variance"):
        parts = (getattr(law, what)(torch.double) for law in (ours, listed))
        assert error(*(part.apply(x) for part in parts)) <= 1e-10


def test_few_columns_are_right_on_average():
    """Totals over 2,000 draws of 8 of 30 columns: within 5 standard errors, 10^−4 for all 60 of them; seeds fixed."""
    of = scores_of("GATv2Conv")
    shift = of.heaviest() + 5.0  # above all scores, so that every draw has the same
    right = denominator._all_listed(of, shift).total(1)
    draws = torch.stack([ColumnOthers(of, shift, columns(8, seed)).total(1) for seed in range(2000)])
    assert bool(((draws.mean(0) - right).abs() <= 5.0 * draws.std(0) / 2000**0.5).all())


def test_sums_over_columns_are_a_part_of_an_operator():
    """Scaled, added and restricted to rows like any other."""
    operator, x = law_by("GATv2Conv", 9).nonedge_mean(torch.double), normal(30, 2, 3, seed=2)
    factor, rows = normal(30, 2, seed=3), Nodes.where(adjacency(GRAPH)[0])
    assert error(operator.scaled(factor).apply(x), factor[..., None] * operator.apply(x)) <= 1e-12
    assert len((operator + operator.scaled(factor)).parts) == 1
    assert error((operator + operator.scaled(factor)).apply(x), (1.0 + factor)[..., None] * operator.apply(x)) <= 1e-12
    assert error(operator.rows(rows).apply(x), operator.apply(x)[rows.index]) <= 1e-12
    other = law_by("GATv2Conv", 9, seed=1).nonedge_mean(torch.double)
    assert len((operator + other).parts) == 2
    assert error((operator + other).apply(x), operator.apply(x) + other.apply(x)) <= 1e-12
    assert isinstance(operator + other, Operator)


def test_large_single_graphs_take_columns_and_batches_a_list(monkeypatch):
    """And whoever asks for samples gets the paper's, for every node its own."""
    monkeypatch.setattr(denominator, "SHORT_LIST", 10)
    law = Law(GRAPH, RATES, generator=torch.Generator().manual_seed(0))
    assert isinstance(denominator.denominator(scores_of("GATv2Conv"), law).others, ColumnOthers)
    asked = replace(law, correction=Correction(complement="sampled", samples=4))
    assert not isinstance(denominator.denominator(scores_of("GATv2Conv"), asked).others, ColumnOthers)
    batch = Graph.from_edge_index(torch.cat([GRAPH.edge_index, GRAPH.edge_index + 30], 1), 60, torch.arange(60) // 30)
    found = denominator.denominator(scores_of("GATv2Conv", batch), law.on(batch))
    assert not isinstance(found.others, ColumnOthers)
