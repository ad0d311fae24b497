"""Graphs, rates, rules, corrections, views as values: what they refuse, how they compare, print and travel."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest
import torch

import rade
from rade import Constant, Correction, GradNorm, Graph, NoiseRatio, Rates, Views
from rade.correction import Adjacency
from rade.distribution import Trust
from rade.moments import Attention, Normalised
from rade.testing.aggregators import normal
from rade.testing.oracle import GRAPHS

PATH = GRAPHS["path"]
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
MIXED = Graph.from_edge_index(torch.tensor([[0, 2, 1, 4, 3, 4], [2, 0, 4, 1, 4, 3]]), 5, torch.tensor([1, 0, 1, 0, 0]))
ALL = {**GRAPHS, "mixed": MIXED}
REFUSED = {
    "transposed": (lambda: Graph.from_edge_index(EDGES.t().contiguous()), r"shape \[2, E\], got \[4, 2\]"),
    "floats": (lambda: Graph.from_edge_index(EDGES.float()), r"int64 node ids, got torch.float32; .*\.long\(\)"),
    "too few nodes": (lambda: Graph.from_edge_index(EDGES, num_nodes=2), "from 0 to 1, got 2; check num_nodes"),
    "negative": (lambda: Graph.from_edge_index(EDGES - 1), "from 0 to 1, got -1"),
    "said undirected": (lambda: Graph.from_edge_index(EDGES[:, :3], directed=False), "lacks.*to_undirected"),
    "short batch": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([0, 0])), r"each of the 3 nodes.*int64 \[2\]"),
    "batch of floats": (lambda: Graph.from_edge_index(EDGES, 3, torch.zeros(3)), "as int64, got torch.float32"),
    "graph -1": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([-1, 0, 0])), "number graphs from 0, got -1"),
    "across": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([0, 0, 1])), "joins nodes of different graphs"),
    "p = 1": (lambda: Rates(1.0, 0.1), r"p must lie in \[0, 1\), got 1.0; p = 1 removes every edge"),
    "negative p": (lambda: Rates(-0.1, 0.1), r"got -0.1"),
    "p not a number": (lambda: Rates(float("nan"), 0.1), "got nan"),
    "q above 1": (lambda: Rates(0.5, 1.5), r"q must lie in \[0, 1\], got 1.5; it is the probability"),
    "moments": (lambda: Correction(moments="taylor"), "moments must be one of 'exact', 'delta'"),
    "by": (lambda: Correction(by="views"), "by must be one of 'moments', 'pairs', got 'views'"),
    "tolerance": (lambda: Correction(tolerance=1e-6), r"tolerance must lie in \[1e-5, 1\], got 1e-06"),
    "small cap": (lambda: Correction(cap=0.5), "'auto', 'none' or a number >= 1, got 0.5"),
    "word as cap": (lambda: Correction(cap="big"), "'auto', 'none' or a number >= 1, got 'big'"),
    "sampling": (lambda: Views(sampling="all"), "sampling must be one of 'bernoulli', 'fixed', 'expected', got 'all'"),
    "shared": (lambda: Views(shared="yes"), "shared must be True or False, got 'yes'"),
    "directed": (lambda: Views(directed=1), "directed must be True or False, got 1"),
    "falling slope": (lambda: Attention(PATH, *torch.zeros(2, 5, 1), slope=-0.2), "slope of LeakyReLU must be >= 0"),
    "nu": (lambda: NoiseRatio(nu=0.0), "nu must be a finite positive number"),
    "horizon": (lambda: NoiseRatio(horizon=1.0), "horizon must be a number of at least 4 steps"),
    "max_p of NoiseRatio": (lambda: NoiseRatio(max_p=1.0), r"max_p must lie in \(0, 1\)"),
    "p above max_p": (lambda: NoiseRatio(p=0.95), "must be at most max_p = 0.9, got 0.95"),
    "p above max_p of GradNorm": (lambda: GradNorm(p=0.95, max_p=0.9), "must be at most max_p = 0.9, got 0.95"),
    "max_p": (lambda: GradNorm(max_p=1.0), r"max_p must lie in \[0, 0.999999\]"),
    "penalty": (lambda: GradNorm(penalty=-1.0), "penalty must be a finite number of at least 0"),
    "lr": (lambda: GradNorm(lr=0.0), "lr must be a finite positive number, got 0.0; rade.Constant"),
    "data_gradient": (lambda: GradNorm(data_gradient="mean"), "must be one of 'training', 'clean', got 'mean'"),
    "constant p": (lambda: Constant(1.0), r"drop rate p must lie in \[0, 1\), got 1"),
    "rho": (lambda: Constant(rho=-0.1), "rho = q/density must be a finite number of at least 0"),
    "a rule without views": (
        lambda: GradNorm().check_views(Views(sampling="expected")), "draws no views, so rates cannot adapt"
    ),
    "trust": (lambda: Trust(spurious=2.0), "real edges must weigh at least as much as spurious ones.*got 1 and 2"),
    "trust of another graph": (lambda: Trust(edges=torch.ones(3)).check(PATH), "expected 8 values for edges, got"),
}  # fmt: skip
VALUES: dict[str, tuple[Any, Any]] = {  # a value, and one that differs
    "GradNorm": (GradNorm(p=0.2, penalty=0.1), GradNorm(p=0.2)),
    "Views": (Views(shared=True), Views()),
    "Readout": (rade.Readout(pool="sum"), rade.Readout()),
    "Expected": (rade.Expected(), rade.Expected(rates=Rates(0.1))),
    "Rates": (Rates(0.5, 0.001), Rates(0.5)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_values_are_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize("name", VALUES)
def test_values_compare_print_and_travel(name):
    """What is printed can be read back."""
    value, other = VALUES[name]
    assert eval(repr(value), {each: getattr(rade, each) for each in VALUES}) == value
    assert value == copy.deepcopy(value) == pickle.loads(pickle.dumps(value))
    assert hash(value) == hash(copy.copy(value))
    assert value != other
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, 0.1)


def test_self_loops_and_repetitions_are_left_out_and_known():
    edges = torch.tensor([[0, 2, 0, 1, 0], [0, 2, 1, 0, 1]])
    graph = Graph.from_edge_index(edges, 4)
    assert (graph.self_loops, graph.repeated, graph.num_edges, graph.num_nodes, graph.num_given) == (2, True, 1, 4, 5)
    assert graph.edge_index.tolist() == [[1, 0], [0, 1]]
    assert graph.order.tolist() == [3, 2]
    assert graph.entry.tolist() == [-1, -3, 1, 0, 1]
    assert torch.equal(graph.given, edges)
    only = Graph.from_edge_index(edges[:, :2], 4)
    assert (only.num_edges, only.given.tolist()) == (0, [[0, 2], [0, 2]])
    simple = Graph.from_edge_index(EDGES)
    assert (simple.self_loops, simple.repeated, simple.num_given, simple.entry) == (0, False, 4, None)


def test_an_empty_graph_may_be_in_the_middle_of_a_batch():
    assert GRAPHS["batch"].ptr.tolist() == [0, 3, 7]
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), batch=torch.tensor([0, 0, 2]))
    assert (graph.sizes.tolist(), graph.density) == ([2, 0, 1], 1.0)


@pytest.mark.parametrize("name", ["isolated", "mixed", "directed-batch"])
def test_copies_and_pickles_are_the_same(name):
    graph = ALL[name]
    x = normal(graph.num_nodes, 2)
    out = Adjacency(graph).aggregate(Normalised.symmetric(graph, torch.double), x)
    for there in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert torch.equal(there.edge_index, graph.edge_index)
        assert torch.equal(there.edge_rank, graph.edge_rank)
        assert torch.equal(Adjacency(there).aggregate(Normalised.symmetric(there, torch.double), x), out)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.batch = torch.zeros(3)
