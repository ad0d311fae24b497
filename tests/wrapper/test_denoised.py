"""Aggregation on noisy graphs: over all noisy versions of small graphs, against the clean aggregation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_geometric
from rade.graph.constant import Matrix
from rade.view import Law, Observed, Rates, Trust
from torch import Tensor

import rade
from rade.correction import propagate
from rade.moments import Attention, Coefficients, Mean, Sum, Symmetric
from rade.moments.weighted import Weighted
from rade.testing import GRAPHS, AllViews, undirected
from rade.testing.aggregators import normal
from rade.testing.oracle import adjacency, copies, error, one_hot
from zoo import LAYERS, Net, random_edges, seeded

NAMES = ("path", "star", "near-clique", "two-components", "batch", "cycle-chord")
AGGREGATORS = {"sum": Sum, "mean": Mean, "symmetric": Symmetric}
NOISE = Rates(0.15, 0.1)
every_aggregator = pytest.mark.parametrize("make", AGGREGATORS.values(), ids=list(AGGREGATORS))
Make = Callable[[rade.Graph, torch.dtype], Coefficients]


class Noisy:
    """All noisy versions of a clean graph, as one batch of graphs, with their probabilities."""

    def __init__(self, clean: rade.Graph, noise: Rates) -> None:
        self.clean, self.noise, self.views = clean, noise, AllViews(Law(clean, noise))
        base, view = self.views.copies, self.views.view
        self.graph = rade.Graph.from_edge_index(view.edge_index, base.num_nodes, base.batch)
        n, pattern = clean.num_nodes, self.graph.pattern
        self.real = adjacency(clean)[pattern.target % n, pattern.source % n]  # [E']

    def mean(self, operator: Callable[[Tensor], Tensor]) -> Tensor:
        """The mean matrix, [n, n]."""
        eye = one_hot(self.clean)
        return self.views.mean(operator(self.views.repeat(eye)).view(self.views.count, *eye.shape))

    def denoised(self, make: Make, trust: Trust = Law.trust) -> Tensor:
        observed, coefficients = Observed(self.graph, self.noise, trust), make(self.graph, torch.double)
        return self.mean(lambda x: propagate(observed, coefficients, x))

    def plain(self, make: Make) -> Tensor:
        return self.mean(lambda x: propagate(self.graph, make(self.graph, torch.double), x))


def clean_matrix(graph: rade.Graph, make: Make) -> Tensor:
    return propagate(graph, make(graph, torch.double), one_hot(graph))


@pytest.mark.parametrize("name", NAMES[:-1])
@pytest.mark.parametrize("noise", [NOISE, Rates(0.0, 0.2), Rates(0.4, 0.0)], ids=str)
def test_sums_are_unbiased(name, noise):
    noisy = Noisy(GRAPHS[name], noise)
    assert error(noisy.denoised(Sum), clean_matrix(GRAPHS[name], Sum)) <= 1e-10
    assert error(noisy.plain(Sum), clean_matrix(GRAPHS[name], Sum)) > 0.1


def test_sums_are_unbiased_with_trust():
    """Real edges weigh 0.8, spurious ones 0.3."""
    noisy = Noisy(GRAPHS["path"], NOISE)
    trust = Trust(0.3 + 0.5 * noisy.real.double(), spurious=0.3, real=0.8)
    assert error(noisy.denoised(Sum, trust), clean_matrix(GRAPHS["path"], Sum)) <= 1e-10


def test_weighted_sums_are_unbiased():
    """Weights of both signs on real edges, and their mean on spurious ones."""
    clean = GRAPHS["cycle-chord"]
    noisy, n = Noisy(clean, NOISE), clean.num_nodes
    weight = torch.zeros(n, n, dtype=torch.double)
    weight[clean.pattern.target, clean.pattern.source] = normal(clean.pattern.size) + 0.5
    mean = weight.sum() / clean.pattern.size
    pattern = noisy.graph.pattern
    given = torch.where(noisy.real, weight[pattern.target % n, pattern.source % n], mean)
    coefficients = Weighted(Sum(noisy.graph, torch.double), given)
    observed = Observed(noisy.graph, NOISE)
    found = noisy.mean(lambda x: propagate(observed, coefficients, x))
    plain = noisy.mean(lambda x: propagate(noisy.graph, coefficients, x))
    assert error(found, weight) <= 1e-10
    assert error(plain, weight) > 0.1


@every_aggregator
@pytest.mark.parametrize("name", ["path", "cycle-chord", "batch"])
def test_nearer_to_the_clean_mean_than_plain(make, name):
    """The largest error of any coefficient's mean; normalisations leave a bias."""
    noisy, clean = Noisy(GRAPHS[name], NOISE), clean_matrix(GRAPHS[name], make)
    denoised, plain = error(noisy.denoised(make), clean), error(noisy.plain(make), clean)
    print(f"{make.__name__} on {name}: {denoised:.3f} against {plain:.3f} plain")
    bias = (noisy.denoised(make) - clean).square().mean().sqrt(), (noisy.plain(make) - clean).square().mean().sqrt()
    assert bias[0] < bias[1]


@every_aggregator
@pytest.mark.parametrize("dtype", [torch.float, torch.double], ids=str)
def test_without_noise_nothing_changes(make, dtype):
    for graph in GRAPHS.values():
        x = normal(graph.num_nodes, 4).to(dtype)
        observed = Observed(graph, Rates(0.0, 0.0))
        assert torch.equal(propagate(observed, make(graph, dtype), x), propagate(graph, make(graph, dtype), x))


@every_aggregator
def test_a_batch_is_its_graphs(make):
    one, x = GRAPHS["cycle-chord"], normal(18, 3)
    together = propagate(Observed(copies(one, 3), NOISE), make(copies(one, 3), torch.double), x)
    alone = [propagate(Observed(one, NOISE), make(one, torch.double), part) for part in x.split(6)]
    torch.testing.assert_close(together, torch.cat(alone))


@every_aggregator
def test_nodes_may_be_numbered_otherwise(make):
    graph, order, x = GRAPHS["cycle-chord"], torch.tensor([3, 0, 5, 1, 4, 2]), normal(6, 3)
    other = rade.Graph.from_edge_index(order[graph.edge_index], 6)
    moved = torch.empty_like(x)
    moved[order] = x
    found = propagate(Observed(other, NOISE), make(other, torch.double), moved)[order]
    torch.testing.assert_close(found, propagate(Observed(graph, NOISE), make(graph, torch.double), x))


@every_aggregator
def test_single_precision_is_near_double(make):
    graph = rade.Graph.from_edge_index(random_edges(300, 2000), 300)
    x, observed = normal(300, 5), Observed(graph, Rates(0.1, 0.4 * graph.density))
    exact = propagate(observed, make(graph, torch.double), x)
    assert error(propagate(observed, make(graph, torch.float), x.float()).double(), exact) < 1e-5


def test_clean_degrees_lie_between_one_and_the_observed():
    graph = rade.Graph.from_edge_index(random_edges(300, 900), 300)
    for part in (0.01, 0.5, 0.99):
        degree = Observed(graph, Rates(0.0, part * graph.density)).degree
        some = graph.degree > 0
        assert bool((degree[some] >= 1.0).all())
        assert bool((degree <= graph.degree).all())
        assert bool((degree[~some] == 0.0).all())


def test_noise_that_prefers_some_nodes():
    """Spurious edges at rates q a_i a_j: their factors take off most of what the mean rate leaves."""
    clean, q = undirected([(0, 1), (1, 2), (2, 3), (3, 4)], 5), 0.1
    ends = torch.tensor([2.0, 1.0, 0.5, 0.5, 1.0], dtype=torch.double)
    noisy = Noisy(clean, Rates(0.0, q))
    n, views = clean.num_nodes, noisy.views
    low, high = torch.triu_indices(n, n, 1)
    nonedge = ~adjacency(clean)[low, high]
    low, high = low[nonedge], high[nonedge]
    dense = views.coefficients(lambda graph, carry, dtype: Sum(graph, dtype))[0]
    rate, there = q * ends[low] * ends[high], dense[:, low, high] > 0
    views.weight = torch.where(there, rate, 1.0 - rate).prod(1)
    target = clean_matrix(clean, Sum)
    known = error(noisy.denoised(Sum, Trust(ends=ends.repeat(views.count))), target)
    assert known < 0.25 * error(noisy.denoised(Sum), target)
    for make in (Mean, Symmetric):
        target = clean_matrix(clean, make)
        found = (noisy.denoised(make, Trust(ends=ends.repeat(views.count))), noisy.denoised(make), noisy.plain(make))
        known, alike, plain = ((matrix - target).square().mean().sqrt() for matrix in found)
        print(f"{make.__name__}, ends known: {known:.4f}, mean rate: {alike:.4f}, plain: {plain:.4f}")
        assert known < alike < plain


def test_noise_by_degree_is_that_of_a_random_graph_of_the_same_degrees():
    """The sum takes share · d_i d_j/2m off every pair; denoised degrees are the same share of all observed ones."""
    graph = rade.Graph.from_edge_index(random_edges(200, 2400), 200)
    q, degree = 0.3 * graph.density, graph.degree.double()
    observed = Observed(graph, Rates(0.0, q), Trust.by_degree(graph))
    expected = 0.3 * degree * degree[:, None] / degree.sum()
    torch.testing.assert_close(observed.spurious, expected.sum(1) - expected.diag(), rtol=0.01, atol=0.0)
    found = propagate(observed, Sum(graph, torch.double), torch.eye(200, dtype=torch.double))
    apart = ~adjacency(graph) & ~torch.eye(200, dtype=torch.bool)
    torch.testing.assert_close(-found[apart] * (1.0 - q), expected[apart], rtol=0.01, atol=0.0)
    assert Trust.by_degree(undirected([], 3)).ends == 1.0  # nothing to prefer


def model(name: str = "GCNConv", **options: object) -> rade.RADE:
    return rade.RADE(seeded(lambda: Net(LAYERS[name])), rule=rade.Constant(0.0, 0.0), **options).eval()


X, EDGES = normal(40, 8).float(), random_edges(40, 120)


@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv"])
def test_costs_one_sparse_product_per_layer(name, monkeypatch):
    """As many as plain inference."""
    counted, add = [], Matrix.add
    monkeypatch.setattr(Matrix, "add", lambda *args: counted.append(1) or add(*args))
    net = model(name)
    net(X, EDGES)
    plain, counted[:] = len(counted), []
    net.by(rade.Denoised(Rates(0.1, 0.02)))(X, EDGES)
    assert len(counted) == plain > 0


@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GraphConv"])
def test_training_and_inference_know_the_noise_of_the_data(name):
    noise = Rates(0.1, 0.02)
    net = model(name, noise=noise)
    torch.testing.assert_close(net(X, EDGES), model(name, inference=rade.Denoised(noise))(X, EDGES))
    torch.testing.assert_close(net.train()(X, EDGES), net.eval()(X, EDGES))  # at rates 0 the only view is the graph
    assert not torch.allclose(net(X, EDGES), model(name)(X, EDGES))


def test_training_knows_which_edges_are_trusted():
    """At rates 0 the only view is the graph: training and inference are what `Denoised` alone computes."""
    graph = rade.Graph.from_edge_index(EDGES, 40)
    trust = Trust(0.5 + 0.5 * (normal(graph.pattern.size).abs() > 0.6), spurious=0.6, real=0.9)
    wanted = rade.Denoised(Rates(0.1, 0.02), trust)
    net = model(noise=wanted)
    torch.testing.assert_close(net.train()(X, graph), model().by(wanted)(X, graph))
    torch.testing.assert_close(net.eval()(X, graph), model().by(wanted)(X, graph))
    with pytest.raises(ValueError, match="trust was found for another graph"):
        net(X, random_edges(40, 90))
    with pytest.raises(TypeError, match=r"noise must be a rade.Rates or a rade.Denoised, got 0.1"):
        model(noise=0.1)


def test_a_second_pass_at_the_same_rates_computes_no_moments_again(monkeypatch):
    """The operator is found again; and who tries many rates keeps those of the latest two only."""
    net, graph, built = model(), rade.Graph.from_edge_index(EDGES, 40), []
    denoised = Symmetric.denoised
    monkeypatch.setattr(Symmetric, "denoised", lambda *args: built.append(1) or denoised(*args))
    for share in (0.01, 0.02, 0.03, 0.03, 0.02, 0.01):
        net.by(rade.Denoised(Rates(0.0, share)))(X, graph)
    assert len(built) == 4  # three rates, and the first again: two layers share one operator
    assert len(net.law(graph).memo.once("denoised", dict)) == 2


def test_no_noise_is_plain_inference_bit_for_bit():
    net = model()
    assert torch.equal(net.by(rade.Denoised())(X, EDGES), net(X, EDGES))


def test_by_is_refused_in_training():
    with pytest.raises(RuntimeError, match=r"model.by\(inference\) is for evaluation"):
        model().train().by(rade.Denoised())(X, EDGES)


def test_bad_noise_is_refused_in_a_sentence():
    graph = GRAPHS["path"]
    with pytest.raises(ValueError, match=r"must add up to less than 1, got p = 0.7 and q = 0.3"):
        Observed(graph, Rates(0.7, 0.3))
    with pytest.raises(ValueError, match=r"leaves no real edge in a graph of density 0.4; q must be smaller"):
        Observed(graph, Rates(0.0, 0.4))
    with pytest.raises(ValueError, match="leaves no real edge"):
        model().by(rade.Denoised(Rates(0.0, 0.5)))(X, EDGES)
    with pytest.raises(ValueError, match="real edges must weigh at least as much"):
        Trust(1.0, spurious=0.9, real=0.5)
    with pytest.raises(ValueError, match=r"found for another graph: expected 8 values for edges, got \[3\]"):
        Observed(graph, NOISE, Trust(torch.ones(3)))


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("name", ["path", "cycle-chord", "batch"])
def test_attention_is_nearer_to_the_clean_mean_than_plain(name, loops):
    clean = GRAPHS[name]
    noisy, (s, t) = Noisy(clean, NOISE), 0.7 * normal(2, clean.num_nodes, 1, seed=2)
    on_noisy = Attention(noisy.graph, noisy.views.repeat(s), noisy.views.repeat(t), self_loops=loops)

    def matrix(adjacency: rade.Adjacency, coefficients: Coefficients) -> Callable[[Tensor], Tensor]:
        return lambda x: propagate(adjacency, coefficients, x[:, None]).squeeze(1)

    target = matrix(clean, Attention(clean, s, t, self_loops=loops))(one_hot(clean))
    found = noisy.mean(matrix(Observed(noisy.graph, NOISE), on_noisy))
    plain = noisy.mean(matrix(noisy.graph, on_noisy))
    print(f"attention on {name}: {error(found, target):.3f} against {error(plain, target):.3f} plain")
    assert (found - target).square().mean() < (plain - target).square().mean()


def test_attention_without_noise_is_clean():
    for graph in GRAPHS.values():
        attention, x = Attention(graph, *normal(2, graph.num_nodes, 2)), normal(graph.num_nodes, 2, 3)
        observed = Observed(graph, Rates(0.0, 0.0))
        torch.testing.assert_close(propagate(observed, attention, x), propagate(graph, attention, x))


def test_attention_over_many_nodes_is_that_of_a_list():
    """Cells of scores against all pairs one by one."""
    graph = rade.Graph.from_edge_index(random_edges(900, 3000), 900)
    s, t = normal(2, 900, 1)
    x, q = normal(900, 2), 0.3 * graph.density
    observed = Observed(graph, Rates(0.0, q))
    found = propagate(observed, Attention(graph, s, t), x[:, None]).squeeze(1)
    dense, others = adjacency(graph).double(), 1.0 - torch.eye(900, dtype=torch.double)
    weight = torch.exp(torch.nn.functional.leaky_relu(s[:, 0] + t, 0.2)) * others
    seen, everyone = (weight * dense).sum(1), weight.sum(1)
    off = torch.minimum(q * observed.excess, observed.share * seen / everyone)[:, None]
    signed = weight * (dense - off)
    total = signed.sum(1, keepdim=True)
    expected = torch.where(total > 0, signed @ x / torch.where(total > 0, total, 1.0), 0.0)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spread", [1.0, 5.0])
@pytest.mark.parametrize("loops", [False, True])
def test_attention_weights_add_up_to_one_at_any_rate(loops, spread):
    """However many spurious edges are expected: a denominator near 0 once cost GAT thirty points on Cora."""
    graph = rade.Graph.from_edge_index(random_edges(60, 90), 60)
    attention = Attention(graph, *spread * normal(2, 60, 2), self_loops=loops)
    heard = (graph.degree > 0) | loops
    for share in (0.3, 0.9, 0.999):
        observed = Observed(graph, Rates(0.1, share * graph.density))
        sums = propagate(observed, attention, torch.ones(60, 2, 1, dtype=torch.double))
        torch.testing.assert_close(sums, heard[:, None, None].double().expand_as(sums))
        kept = propagate(observed, attention, normal(60, 2, 3))
        assert kept.abs().max() < 1e3


def test_attention_takes_as_much_off_hubs_as_their_degree_lets_expect():
    """Where spurious edges prefer hubs: with equal scores all others weigh alike, and E[S | k] of n − 1 go."""
    graph = rade.Graph.from_edge_index(torch.cat([random_edges(60, 90), random_edges(6, 60)], 1).unique(dim=1), 60)
    trust, noise = Trust.by_degree(graph), Rates(0.0, 0.4 * graph.density)
    observed = Observed(graph, noise, trust)
    zeros = torch.zeros(60, 1, dtype=torch.double)
    found = propagate(observed, Attention(graph, zeros, zeros, self_loops=False), one_hot(graph)[:, None]).squeeze(1)
    apart = (adjacency(graph) == 0).double() - torch.eye(60)  # no edges: nothing but what is taken off
    taken = -(found * apart).sum(1) / apart.sum(1)
    off = observed.share * observed.seen / 59 * observed.gain
    whole = observed.gain * (graph.degree - observed.share * observed.seen)
    torch.testing.assert_close(taken, torch.where(graph.degree > 0, off / whole.clamp(min=1e-9), 0.0))
    hubs = graph.degree >= graph.degree.sort().values[-5]
    alike = Observed(graph, noise)
    assert (observed.share * observed.seen)[hubs].mean() > 1.5 * (alike.share * alike.seen)[hubs].mean()


def test_attention_keeps_its_dropout_in_training_on_the_mean():
    net = seeded(lambda: Net(lambda i, o: torch_geometric.nn.GATConv(i, o, dropout=0.6)))
    views = rade.Views(sampling="expected")
    model = rade.RADE(net, "ofs", rule=rade.Constant(0.2, 0.2), views=views, noise=Rates(0.0, 0.01)).train()
    x, edges = normal(30, 8).float(), random_edges(30, 60)
    assert not torch.equal(model(x, edges), model(x, edges))
    assert torch.equal(model.eval()(x, edges), model(x, edges))


class Own(Sum):
    """An aggregator of one's own, which says nothing about noise."""

    denoised = Coefficients.denoised


def test_an_aggregator_that_cannot_says_so():
    with pytest.raises(ValueError, match="Own cannot undo noise in its graph: it has no method `denoised`"):
        propagate(Observed(GRAPHS["path"], NOISE), Own(GRAPHS["path"], torch.double), normal(5, 2))
