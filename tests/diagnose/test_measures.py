"""Measures against graphs whose answer is known, and against dense algebra."""

import pytest
import torch
from torch.testing import assert_close

from rade.correction import propagate
from rade.diagnose.flips import decisions, flips
from rade.diagnose.interchange import interchange, ratios
from rade.diagnose.network import components, conductors, induced, largest_component, network
from rade.diagnose.resistance import conjugate_gradients, effective_resistance
from rade.diagnose.sample import sample
from rade.diagnose.sensitivity import beyond, by_distance, jacobian_norms, watching
from rade.diagnose.spectrum import DENSE, spectral_gap
from rade.graph.graph import Graph
from rade.moments import Mean, Sent, Sum, Symmetric
from rade.train.backbones import build_backbone
from rade.view.law import Law, Variant
from rade.view.rates import Rates
from rade.view.view import MeanView


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def undirected(pairs, nodes, batch=None):
    edges = torch.tensor(pairs).t()
    return Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), nodes, batch)


def path(nodes):
    return undirected([(k, k + 1) for k in range(nodes - 1)], nodes)


def random_graph(nodes, share, seed=0):
    pairs = torch.combinations(torch.arange(nodes))
    kept = pairs[torch.rand(len(pairs), generator=seeded(seed)) < share]
    return undirected(
        [*kept.tolist(), *((k, k + 1) for k in range(nodes - 1) if [k, k + 1] not in kept.tolist())], nodes
    )


def ofs(graph, p=0.4, q=0.1):
    return MeanView(Law(graph, Rates(p, q), Variant.OFS))


def dense(adjacency, coefficients):
    return propagate(adjacency, coefficients, torch.eye(adjacency.graph.num_nodes, dtype=torch.double))


def of(graph, kind=Sum):
    return kind(graph, torch.double)


def test_resistance_on_a_path_is_the_distance():
    graph = path(30)
    source, target = torch.tensor([0, 3, 7]), torch.tensor([29, 4, 7])
    found = effective_resistance(network(graph, of(graph)), source, target)
    assert_close(found, torch.tensor([29.0, 1.0, 0.0], dtype=torch.double))


def test_resistance_of_parallel_ways_on_a_ring():
    ring = undirected([(k, (k + 1) % 12) for k in range(12)], 12)
    found = effective_resistance(network(ring, of(ring)), torch.tensor([0]), torch.tensor([5]))
    assert_close(found, torch.tensor([5 * 7 / 12], dtype=torch.double))


@pytest.mark.parametrize("kind", [Sum, Symmetric])
@pytest.mark.parametrize("inference", ["clean", "ofs"])
def test_resistance_is_that_of_the_pseudo_inverse(kind, inference):
    graph = random_graph(20, 0.15)
    adjacency = graph if inference == "clean" else ofs(graph)
    weights = dense(adjacency, of(graph, kind))
    inverse = torch.linalg.pinv(torch.diag(weights.sum(1)) - weights)
    source, target = torch.tensor([0, 4, 9]), torch.tensor([19, 13, 10])
    expected = inverse[source, source] + inverse[target, target] - 2 * inverse[source, target]
    assert_close(effective_resistance(network(adjacency, of(graph, kind)), source, target), expected)


def test_commute_time_is_resistance_times_volume():
    """Expected steps there and back of the walk P = D⁻¹W with loops, by first-step analysis."""
    graph = random_graph(9, 0.2)
    found = network(ofs(graph), of(graph, Symmetric))
    walk = dense(ofs(graph), of(graph, Symmetric)) / found.degree[:, None]
    hitting = []
    for start, end in ((0, 5), (5, 0)):
        others = [k for k in range(9) if k != end]
        times = torch.linalg.solve(torch.eye(8).double() - walk[others][:, others], torch.ones(8).double())
        hitting.append(times[others.index(start)])
    resistance = effective_resistance(found, torch.tensor([0]), torch.tensor([5]))
    assert_close(resistance * found.volume[0], (hitting[0] + hitting[1])[None])


def test_no_current_flows_between_components():
    graph = undirected([(0, 1), (2, 3)], 4)
    found = effective_resistance(network(graph, of(graph)), torch.tensor([0, 0]), torch.tensor([1, 2]))
    assert found.tolist() == [1.0, torch.inf]


def test_conjugate_gradients_leave_solved_columns_alone():
    """An easy column beside a hard one in a singular system: the easy one must not drift meanwhile."""
    graph = path(200)
    found = network(graph, of(graph))
    right = torch.zeros(200, 2, dtype=torch.double)
    right[[0, 199], 0], right[:, 1] = torch.tensor([1.0, -1.0], dtype=torch.double), 0.0
    solution, solved = conjugate_gradients(found.laplacian, right, found.degree)
    assert solved.all()
    assert_close(solution[:, 1], torch.zeros(200, dtype=torch.double))


@pytest.mark.parametrize("nodes", [20, DENSE + 40])
@pytest.mark.parametrize("kind", [Sum, Symmetric])
@pytest.mark.parametrize("inference", ["clean", "ofs"])
def test_spectral_gap_is_that_of_the_dense_matrix(nodes, kind, inference):
    graph = random_graph(nodes, 3 / nodes)
    adjacency = graph if inference == "clean" else ofs(graph, q=0.5 / nodes)
    weights = dense(adjacency, of(graph, kind))
    root = weights.sum(1).sqrt()
    values = torch.linalg.eigvalsh(weights / root[:, None] / root)
    assert values[-1] == pytest.approx(1.0)
    assert spectral_gap(network(adjacency, of(graph, kind))) == pytest.approx(1 - float(values[-2]), rel=1e-3, abs=1e-6)


def test_a_complete_graph_has_the_largest_gap_and_two_components_none():
    complete = undirected(torch.combinations(torch.arange(6)).tolist(), 6)
    assert spectral_gap(network(complete, of(complete))) == pytest.approx(1 + 1 / 5)
    apart = undirected([(0, 1), (2, 3)], 4)
    assert spectral_gap(network(apart, of(apart))) == 0.0
    assert spectral_gap(network(ofs(apart), of(apart))) > 0.01


def test_asymmetric_weights_give_way_to_sums():
    graph = random_graph(15, 0.2)
    mean = of(graph, Mean)
    assert isinstance(conductors(ofs(graph), mean), Sum)
    symmetric = of(graph, Symmetric)
    assert conductors(ofs(graph), symmetric) is symmetric


def test_components_and_the_largest_of_them():
    graph = undirected([(0, 1), (2, 4), (4, 5), (2, 5)], 6)
    assert len(set(components(graph).tolist())) == 3
    assert largest_component(graph).tolist() == [2, 4, 5]
    assert induced(graph, largest_component(graph)).degree.tolist() == [2, 2, 2]


def test_samples_know_distances_and_pair_connected_nodes_only():
    graph = undirected([(0, 1), (1, 2), (3, 4)], 6, torch.tensor([0, 0, 0, 0, 0, 1]))
    found = sample(graph, 10, 3, seeded())
    assert found.anchors.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.distance[0].tolist() == [0, 1, 2, -1, -1, -1]
    assert not found.inside[0, 5]
    assert (found.distance[found.source, found.target] > 0).all()
    assert found.apart == pytest.approx(12 / 20)  # both ways between three and two nodes of one graph


@pytest.fixture
def net():
    torch.manual_seed(0)
    return build_backbone("gcn", 3, 6, 2).double().eval()


@pytest.mark.parametrize("inference", ["clean", "ofs"])
def test_jacobian_norms_are_those_of_the_whole_jacobian(net, inference):
    graph = path(7)
    adjacency = graph if inference == "clean" else ofs(graph)
    x = torch.randn(7, 3, dtype=torch.double, generator=seeded())

    def hidden(inputs):
        with watching(net) as seen:
            net(inputs, adjacency)
        return seen.hidden

    entered = []
    hook = net.before.register_forward_hook(lambda module, args, output: entered.append(output))
    found = jacobian_norms(net, x, adjacency, torch.tensor([0, 3]), seeded())
    hook.remove()

    def function(inputs):
        state = inputs
        for convolution in net.convolutions:
            state = net.activation(convolution(state, adjacency))
        return state[[0, 3]]

    whole = torch.autograd.functional.jacobian(function, x)  # [2, H, n, F]
    assert_close(found, whole.square().sum((1, 3)).sqrt())
    assert hidden(x).shape == (7, 6)


def test_a_clean_model_hears_as_far_as_it_has_layers(net):
    graph = path(9)
    x = torch.randn(9, 3, dtype=torch.double, generator=seeded())
    chosen = sample(graph, 9, 1, seeded())
    clean, added = (jacobian_norms(net, x, a, chosen.anchors, seeded()) for a in (graph, ofs(graph)))
    steps = by_distance(clean, chosen.distance, chosen.inside)
    assert [pairs for pairs, _ in steps.values()] == [9, 16, 14, 12, 10, 8, 6, 4, 2]
    assert all((mean > 0) == (distance <= 2) for distance, (_, mean) in steps.items())
    assert beyond(clean, chosen.distance, chosen.inside, 2) == 0.0
    assert beyond(added, chosen.distance, chosen.inside, 2) > 0.05


@pytest.mark.parametrize("variant", [Variant.OF, Variant.OFS])
def test_the_ratio_of_proposition_4_by_enumeration(variant):
    graph = undirected([(0, 1), (1, 2), (2, 3), (0, 4)], 6)
    m = torch.randn(6, 2, dtype=torch.double, generator=seeded())
    expected = []
    for i in range(5):  # node 5 has no neighbor and no ratio
        near = graph.pattern.source[graph.pattern.target == i].tolist()
        far = [j for j in range(6) if j != i and j not in near]
        centre = m[far].mean(0) if variant.centres else 0.0
        expected.append((m[far] - centre).square().sum() / m[near].square().sum())
    assert_close(ratios(m, Law(graph, Rates(0.3, 0.2), variant)), torch.stack(expected))


def test_equal_messages_on_a_regular_graph_make_additions_and_drops_interchangeable():
    ring = undirected([(k, (k + 1) % 8) for k in range(8)], 8)
    sent = Sent(of(ring), torch.ones(8, 1, dtype=torch.double))
    found = interchange(sent, Law(ring, Rates(0.5, 0.2), Variant.OFS))
    assert found.low == pytest.approx(found.high) == pytest.approx(5 / 2)
    assert found.wanted == pytest.approx(1 / 0.16)
    assert found.added == pytest.approx(5 * 0.16 / (5 * 0.16 + 2))


def test_flips_count_changed_decisions():
    graph = random_graph(12, 0.2)

    def by_degree(one):
        return torch.stack([one.degree.double(), torch.full((12,), 0.5, dtype=torch.double)], 1)

    found = flips(by_degree, graph, "multiclass", draws=3, seed=0, levels=(0.0, 0.9))
    assert found["drop"]["0"] == found["add"]["0"] == 0.0
    assert found["drop"]["0.9"] > 0.2  # nodes that lose all their edges
    assert found["add"]["0.9"] == 0.0


def test_decisions_of_every_task():
    logits = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    assert decisions(logits, "multiclass").tolist() == [0, 1]
    assert decisions(logits, "multilabel").tolist() == [[True, False], [True, True]]
