"""Estimates of noise on a graph of communities whose noise is known."""

import functools
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.utils import to_undirected

import rade
from rade.noise import FeatureEvidence, _partners, cosine, rates_of
from rade.testing.oracle import nonedges
from zoo import LAYERS, Net, normal, seeded

NODES, CLASSES = 600, 3


def communities(signal: float) -> tuple[Tensor, Tensor, Tensor]:
    """Features [n, 8] and labels of three groups, and edges of mean degree 20, nine of ten within a group."""
    draws = torch.Generator().manual_seed(0)
    y = torch.arange(NODES) % CLASSES
    x = torch.randn(NODES, 8, generator=draws) + signal * torch.randn(CLASSES, 8, generator=draws)[y]
    low, high = torch.triu_indices(NODES, NODES, 1)
    there = torch.rand(len(low), generator=draws) < torch.where(y[low] == y[high], 0.09, 0.005)
    return x, y, to_undirected(torch.stack([low[there], high[there]]))


def spoiled(edges: Tensor, add: float, seed: int) -> tuple[Tensor, float]:
    """With ``add`` times as many spurious edges as real ones, and the share of these."""
    low, high = torch.triu_indices(NODES, NODES, 1)
    free = torch.ones(NODES, NODES, dtype=torch.bool)
    free[edges[0], edges[1]] = False
    others = free[low, high].nonzero().squeeze(1)
    count = int(add * edges.shape[1] / 2)
    chosen = others[torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))[:count]]
    return torch.cat([edges, to_undirected(torch.stack([low[chosen], high[chosen]]))], 1), add / (1.0 + add)


@dataclass(frozen=True)
class Trained:
    x: Tensor
    y: Tensor
    edges: Tensor
    model: rade.RADE

    def accuracy(self, edges: Tensor, inference: rade.Inference) -> float:
        right = self.model.by(inference)(self.x, edges).argmax(1) == self.y
        return float(right[NODES // 2 :].float().mean())

    def estimate(self, edges: Tensor, **options: Any) -> rade.NoiseEstimate:
        rows = torch.arange(NODES // 4, NODES // 2)
        return rade.estimate_noise(self.model, self.x, edges, labels=self.y, rows=rows, **options)


@pytest.fixture(scope="module")
def trained() -> Trained:
    x, y, edges = communities(0.4)
    torch.manual_seed(0)
    model = rade.RADE(Net(LAYERS["GCNConv"]), rule=rade.Constant(0.0, 0.0))
    optimizer, rows = torch.optim.Adam(model.parameters(), 0.02), torch.arange(NODES // 4)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(x, edges)[rows], y[rows]).backward()
        optimizer.step()
    return Trained(x, y, edges, model.eval())


@pytest.mark.parametrize(
    ("other", "kind", "sentence"),
    [
        ({"model": Net(LAYERS["GCNConv"])}, TypeError, r"needs a model in RADE, got Net: rade.RADE\(net"),
        ({"model": rade.RADE(Net(LAYERS["GCNConv"]))}, RuntimeError, r"evaluation mode: call model.eval\(\) first"),
        ({"rows": torch.arange(0)}, ValueError, "at least one validation row, got none"),
        ({"labels": torch.zeros(7)}, ValueError, r"one row for each of the \d+ nodes, got 7"),
        ({"labels": torch.zeros(NODES, 2)}, ValueError, r"classes \[n\], or targets of the outputs' shape"),
    ],
)
def test_what_an_estimate_cannot_start_from_is_refused(trained, other, kind, sentence):
    given = {"model": trained.model, "labels": trained.y, "rows": torch.arange(5)} | other
    with pytest.raises(kind, match=sentence):
        rade.estimate_noise(given.pop("model"), trained.x, trained.edges, **given)


def test_a_clean_graph_has_no_noise(trained):
    found = trained.estimate(trained.edges)
    assert found.chosen.share == 0.0
    assert found.rates == rade.Rates(0.0, 0.0)
    assert found.interval[0] == 0.0
    assert trained.accuracy(trained.edges, found.inference) == trained.accuracy(trained.edges, rade.Expected())


def test_noise_is_found_and_undone(trained):
    """Twice as many spurious edges as real ones; equal graphs have equal estimates."""
    noisy, _ = spoiled(trained.edges, 2.0, seed=1)
    plain, found, again = trained.accuracy(noisy, rade.Expected()), trained.estimate(noisy), trained.estimate(noisy)
    assert found.interval[0] <= found.chosen.share <= found.interval[1]
    assert 0.3 <= found.chosen.share <= 0.85
    assert trained.accuracy(noisy, found.inference) > plain + 0.03
    assert "of the observed edges spurious fits best" in str(found)
    assert all((a.share, a.score) == (b.share, b.score) for a, b in zip(found.guesses, again.guesses, strict=True))


def test_labels_are_read_by_the_shape_of_the_outputs(trained):
    """One output per row is a yes or no, whole numbers or not; "no noise" is tried and preferred in any order."""
    model = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"], classes=1)), rule=rade.Constant(0, 0)).eval()
    yes, rows = (trained.y == 0).long(), torch.arange(NODES)
    call = functools.partial(
        rade.estimate_noise, model, trained.x, trained.edges, rows=rows, by_edge=False, shares=(0.4, 0.2)
    )
    found = call(labels=yes)
    assert [guess.share for guess in found.guesses] == [0.0, 0.2, 0.4]
    right = (model(trained.x, trained.edges).squeeze(1) > 0) == yes.bool()
    assert found.guesses[0].score == pytest.approx(float(right.float().mean()))
    assert call(labels=yes.float()[:, None]).guesses[0].score == found.guesses[0].score


def test_rates_follow_from_the_share():
    edges = communities(1.0)[2]
    noisy, share = spoiled(edges, 1.0, seed=3)
    graph, clean = rade.Graph.from_edge_index(noisy, NODES), edges.shape[1] / 2
    rates = rates_of(graph, share)
    assert rates.q == pytest.approx((graph.num_edges - clean) / (graph.num_pairs - clean), rel=1e-3)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\), got 1"):
        rates_of(graph, 1.0)


def test_trust_tells_spurious_edges_from_real_ones():
    x, _, edges = communities(2.0)
    noisy, share = spoiled(edges, 1.0, seed=4)
    graph, real = rade.Graph.from_edge_index(noisy, NODES), torch.zeros(NODES, NODES, dtype=torch.bool)
    real[edges[1], edges[0]] = True
    real = real[graph.pattern.target, graph.pattern.source]
    evidence = FeatureEvidence.of(graph, x)
    trust = evidence.trust(share)
    assert share <= evidence.told <= share + 0.3  # an upper bound
    assert trust.edges[real].mean() > trust.edges[~real].mean() + 0.2
    assert trust.spurious == pytest.approx(float(trust.edges[~real].mean()), abs=0.05)
    assert trust.real == pytest.approx(float(trust.edges[real].mean()), abs=0.05)
    assert float(trust.ends.mean()) == pytest.approx(1.0)
    assert torch.equal(trust.edges, trust.edges[graph.pattern.transposition])
    # Shares of random pairs may add up to a little more than one.
    random = evidence.random * (1.0 + 2.0**-50) / evidence.random.sum()
    trust = replace(evidence, random=random).trust(0.0)
    assert trust.spurious == trust.real == 1.0


def test_partners_are_others_of_the_same_graph():
    """Each of them about as often, in a batch whose nodes do not come graph by graph; seed fixed."""
    graph = rade.Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 7, torch.arange(7) % 2)
    first, other = _partners(graph, 200, torch.Generator().manual_seed(0))
    counts = torch.zeros(7, 7).index_put((first, other), torch.ones(len(first)), accumulate=True)
    expected = 200.0 / (graph.size - 1)[:, None] * nonedges(graph)
    assert bool((counts[expected == 0] == 0).all())
    assert float((counts - expected).abs().max()) < 60


def test_cosines_of_sparse_features_are_those_of_dense_ones():
    x, pairs = normal(30, 12).relu(), torch.randint(0, 30, (2, 100), generator=torch.Generator().manual_seed(1))
    x[3], pairs[0, 0] = 0.0, 3
    torch.testing.assert_close(cosine(x.to_sparse_csr(), pairs), cosine(x, pairs))
    assert cosine(x, pairs)[0] == 0.0
