"""Measures against graphs whose answer is known and against dense algebra; `rade diagnose` as a whole."""

import json
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from rade.correction import Adjacency
from rade.data import load
from rade.diagnose import diagnose, subject_of
from rade.diagnose import measures as m
from rade.distribution import Distribution, Rates, Variant
from rade.graph.graph import Graph
from rade.moments import Normalised
from rade.train.backbones import build_backbone
from rade.train.model import Shape, Trained, build_learner
from rade.train.settings import resolve

QUICK = ("--epochs", 1, "--anchors", 3, "--draws", 1, "--threads", 1)


def seeded():
    return torch.Generator().manual_seed(0)


def undirected(pairs, nodes):
    edges = torch.tensor(pairs).t()
    return Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), nodes)


def random_graph(nodes, share):
    """A path with further edges."""
    pairs = torch.combinations(torch.arange(nodes))
    kept = (torch.rand(len(pairs), generator=seeded()) < share) | (pairs[:, 1] == pairs[:, 0] + 1)
    return undirected(pairs[kept].tolist(), nodes)


def ofs(graph, q=0.1):
    return Adjacency(graph, Distribution(graph, Rates(0.4, q), Variant.OFS))


def network(adjacency, kind=Normalised.sum):
    return m.Network.of(adjacency, kind(adjacency.graph, torch.double))


def dense(adjacency, kind):
    identity = torch.eye(adjacency.graph.num_nodes, dtype=torch.double)
    return adjacency.sums(kind(adjacency.graph, torch.double)).apply(identity)


BOTH = pytest.mark.parametrize("operator", [lambda graph, q=0.1: Adjacency(graph), ofs], ids=["clean", "ofs"])
KIND = pytest.mark.parametrize("kind", [Normalised.sum, Normalised.symmetric])


@KIND
@BOTH
def test_resistance_is_that_of_the_pseudo_inverse(kind, operator):
    adjacency = operator(random_graph(20, 0.15))
    weights = dense(adjacency, kind)
    inverse = torch.linalg.pinv(torch.diag(weights.sum(1)) - weights)
    source, target = torch.tensor([0, 4, 9]), torch.tensor([19, 13, 10])
    expected = inverse[source, source] + inverse[target, target] - 2 * inverse[source, target]
    assert_close(m.effective_resistance(network(adjacency, kind), source, target), expected)


@pytest.mark.parametrize("nodes", [20, m.DENSE + 40])
@KIND
@BOTH
def test_spectral_gap_is_that_of_the_dense_matrix(nodes, kind, operator):
    adjacency = operator(random_graph(nodes, 3 / nodes), q=0.5 / nodes)
    weights = dense(adjacency, kind)
    root = weights.sum(1).sqrt()
    values = torch.linalg.eigvalsh(weights / root[:, None] / root)
    assert m.spectral_gap(network(adjacency, kind)) == pytest.approx(1 - float(values[-2]), rel=1e-3, abs=1e-6)


def test_a_graph_in_pieces():
    apart = undirected([(0, 1), (2, 4), (4, 5), (2, 5)], 6)
    found = m.effective_resistance(network(Adjacency(apart)), torch.tensor([0, 0, 4]), torch.tensor([1, 2, 4]))
    assert found.tolist() == [pytest.approx(1.0), torch.inf, 0.0]
    assert m.spectral_gap(network(Adjacency(apart))) == 0.0
    assert m.spectral_gap(network(ofs(apart))) > 0.01
    part, nodes = m.largest_component(apart)
    assert (nodes.tolist(), part.degree.tolist()) == ([2, 4, 5], [2, 2, 2])


@BOTH
def test_jacobian_norms_are_those_of_the_whole_jacobian(operator):
    torch.manual_seed(0)
    net, adjacency = build_backbone("gcn", 3, 6, 2).double().eval(), operator(random_graph(7, 0.2))
    x = torch.randn(7, 3, dtype=torch.double, generator=seeded())

    def function(state):
        for convolution in net.convolutions:
            state = net.activation(convolution(state, adjacency))
        return state[[0, 3]]

    whole = torch.autograd.functional.jacobian(function, x)  # [2, H, n, F]
    found = m.jacobian_norms(net, x, adjacency, torch.tensor([0, 3]), seeded())
    assert_close(found, whole.square().sum((1, 3)).sqrt())


@pytest.mark.parametrize("variant", [Variant.OF, Variant.OFS])
def test_the_ratio_of_proposition_4_by_enumeration(variant):
    graph = undirected([(0, 1), (1, 2), (2, 3), (0, 4)], 6)
    messages = torch.randn(6, 2, dtype=torch.double, generator=seeded())
    expected = []
    for i in range(5):  # node 5 has no neighbor and no ratio
        near = graph.pattern.source[graph.pattern.target == i].tolist()
        far = [j for j in range(6) if j != i and j not in near]
        centre = messages[far].mean(0) if variant.centres else 0.0
        expected.append((messages[far] - centre).square().sum() / messages[near].square().sum())
    assert_close(m.ratios(messages, Distribution(graph, Rates(0.3, 0.2), variant)), torch.stack(expected))


@pytest.mark.parametrize("backbone", ["gcn", "gin", "gat", "sage"])
def test_rade_of_is_the_clean_operator_and_rade_ofs_conducts_better(backbone):
    data, settings = load("csbm", nodes=240), resolve("csbm", backbone, "none", hidden=8)
    trained = Trained(settings, Shape.of(data), 0, build_learner(settings, Shape.of(data), 0).eval())
    found = diagnose(subject_of(trained, data, "not trained", p=0.4, rho=1.0), anchors=4, draws=1)
    clean, same, more = (found["operators"][name] for name in ("clean", "rade-of", "rade-ofs"))
    assert same == clean
    assert more["resistance"] < clean["resistance"]
    assert more["beyond"] > clean["beyond"] == 0.0
    assert all((step["sensitivity"] > 0) == (0 <= step["distance"] <= found["layers"]) for step in clean["steps"])
    assert found["weights"] == ("aggregator" if backbone in ("gcn", "gin") else "sum")
    json.dumps(found, allow_nan=False)


def test_a_data_set_of_graphs(rade):
    code, out, _ = rade("diagnose", "far-pair", *QUICK, "--json")
    found = json.loads(out)
    assert (code, found["graphs"]) == (0, 128)
    assert any("graphs, drawn at random" in note for note in found["notes"])
    assert found["operators"]["rade-ofs"]["gap"] > found["operators"]["clean"]["gap"] > 0


def test_a_run_is_measured_at_its_own_rates_and_kept(rade):
    rade("train", "--dataset", "csbm", "--method", "rade-ofs", "--runs", 1, "--epochs", 2, "--hidden", 4, "--out", "r",
         "--fixed-rates", "--p", 0.25)  # fmt: skip
    code, out, err = rade("diagnose", "r/rade-ofs/run-0", *QUICK, "--out", "store")
    assert code == 0, err
    assert "p = 0.25" in out
    assert "rade-ofs, 2 layers, from r/rade-ofs/run-0" in out
    (kept,) = Path("store/studies/diagnoses").glob("csbm-*.json")
    assert json.loads(kept.read_text())["p"] == 0.25
