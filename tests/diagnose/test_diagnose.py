"""Measures against dense algebra; `rade diagnose` as a whole."""

import json

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.utils import to_undirected

from rade import diagnose as m
from rade.correction import Adjacency
from rade.data import load
from rade.distribution import Distribution, Rates, Variant
from rade.graph.graph import Graph
from rade.moments import Normalised
from rade.train.backbones import build_backbone
from rade.train.model import Shape, Trained, build_learner
from rade.train.settings import resolve
from zoo import random_edges


def seeded():
    return torch.Generator().manual_seed(0)


def random_graph(nodes):
    """A path with further edges."""
    path = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return Graph.from_edge_index(to_undirected(torch.cat([path, random_edges(nodes, nodes)], 1)), nodes)


def ofs(graph, q=0.1):
    return Adjacency(graph, Distribution(graph, Rates(0.4, q), Variant.OFS))


BOTH = pytest.mark.parametrize("operator", [lambda graph, q=0.1: Adjacency(graph), ofs], ids=["clean", "ofs"])


@pytest.mark.parametrize("nodes", [20, m.DENSE + 40])
@BOTH
def test_spectral_gap_is_that_of_the_dense_matrix(nodes, operator):
    adjacency = operator(random_graph(nodes), q=0.5 / nodes)
    identity = torch.eye(nodes, dtype=torch.double)
    weights = adjacency.sums(Normalised.sum(adjacency.graph, torch.double)).apply(identity)
    root = weights.sum(1).sqrt()
    values = torch.linalg.eigvalsh(weights / root[:, None] / root)
    assert m.spectral_gap(adjacency) == pytest.approx(1 - float(values[-2]), rel=1e-3, abs=1e-6)


@BOTH
def test_jacobian_norms_are_those_of_the_whole_jacobian(operator):
    torch.manual_seed(0)
    net, adjacency = build_backbone("gcn", 3, 6, 2).double().eval(), operator(random_graph(7))
    x = torch.randn(7, 3, dtype=torch.double, generator=seeded())

    def function(state):
        for convolution in net.convolutions:
            state = net.activation(convolution(state, adjacency))
        return state[[0, 3]]

    whole = torch.autograd.functional.jacobian(function, x)  # [2, H, n, F]
    found = m.jacobian_norms(net, x, adjacency, torch.tensor([0, 3]), seeded())
    assert_close(found, whole.square().sum((1, 3)).sqrt())


@pytest.mark.parametrize(("name", "backbone"), [("csbm", "gcn"), ("csbm", "gat"), ("far-pair", "gin")])
def test_rade_ofs_connects_what_the_clean_model_keeps_apart(name, backbone):
    """Of the largest piece of a graph, or the clean gap would be zero; of many graphs some are drawn."""
    data, settings = load(name), resolve(name, backbone, "none", hidden=8)
    trained = Trained(settings, Shape.of(data), 0, build_learner(settings, Shape.of(data), 0).eval())
    found = m.diagnose(trained, data)
    clean, more = (found["operators"][name] for name in ("clean", "rade-ofs"))
    assert more["gap"] > clean["gap"] > 0
    assert more["beyond"] > clean["beyond"] == 0.0
    assert all((step["sensitivity"] > 0) == (0 <= step["distance"] <= found["layers"]) for step in clean["steps"])
    assert found["graphs"] == (128 if name == "far-pair" else 1)
    assert ("128 of 2,000 graphs, at random" in found["notes"]) == (name == "far-pair")
    json.dumps(found, allow_nan=False)


def test_a_run_is_measured_at_its_own_rates(rade):
    rade("train", "--dataset", "csbm", "--method", "rade-ofs-fixed", "--runs", 1, "--epochs", 2, "--hidden", 4,
         "--out", "r", "--p", 0.25)  # fmt: skip
    code, out, err = rade("diagnose", "r/rade-ofs-fixed/run-0")
    assert code == 0, err
    assert "p = 0.25" in out
    assert "gcn, rade-ofs-fixed, 2 layers, at most 2 epochs" in out
    assert "sensitivity from beyond 2 edges" in out
    assert json.loads(rade("diagnose", "r/rade-ofs-fixed/run-0", "--json")[1])["p"] == 0.25
