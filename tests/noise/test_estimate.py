"""Estimates of noise on a graph of communities whose noise is known."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import rade
from rade.noise import EdgeEvidence, Evidence, TwoGroups, cosine, rates_of
from rade.noise.guesses import Candidate, Guess, NoiseEstimate
from rade.noise.similarity import partners
from rade.testing import GRAPHS
from rade.train.stages import Corruption
from zoo import LAYERS, Net, seeded

NODES, CLASSES = 600, 3


def communities(signal: float, seed: int = 0) -> tuple[Tensor, Tensor, rade.Graph]:
    """Features [n, 8] of three groups, and edges of mean degree 20, nine of ten within a group."""
    draws = torch.Generator().manual_seed(seed)
    y = torch.arange(NODES) % CLASSES
    x = torch.randn(NODES, 8, generator=draws) + signal * torch.randn(CLASSES, 8, generator=draws)[y]
    low, high = torch.triu_indices(NODES, NODES, 1)
    chance = torch.where(y[low] == y[high], 0.09, 0.005)
    there = torch.rand(len(low), generator=draws) < chance
    edges = torch.stack([low[there], high[there]])
    return x, y, rade.Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), NODES)


@dataclass(frozen=True)
class Trained:
    x: Tensor
    y: Tensor
    graph: rade.Graph
    model: rade.RADE

    def accuracy(self, graph: rade.Graph, inference: rade.Inference) -> float:
        right = self.model.by(inference)(self.x, graph).argmax(1) == self.y
        return float(right[NODES // 2 :].float().mean())

    def estimate(self, graph: rade.Graph, **options: object) -> rade.NoiseEstimate:
        rows = torch.arange(NODES // 4, NODES // 2)
        return rade.estimate_noise(self.model, self.x, graph, labels=self.y, rows=rows, **options)


@pytest.fixture(scope="module")
def trained() -> Trained:
    x, y, graph = communities(0.4)
    torch.manual_seed(0)
    model = rade.RADE(Net(LAYERS["GCNConv"]), rule=rade.Constant(0.0, 0.0))
    optimizer, rows = torch.optim.Adam(model.parameters(), 0.02), torch.arange(NODES // 4)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(x, graph)[rows], y[rows]).backward()
        optimizer.step()
    return Trained(x, y, graph, model.eval())


def test_what_an_estimate_cannot_start_from_is_refused(trained):
    good = {"model": trained.model, "labels": trained.y, "rows": torch.arange(5)}

    def asked(**other):
        given = good | other
        rade.estimate_noise(given.pop("model"), trained.x, trained.graph, **given)

    with pytest.raises(TypeError, match=r"needs a model in RADE, got Net: rade.RADE\(net"):
        asked(model=Net(LAYERS["GCNConv"]))
    with pytest.raises(ValueError, match="at least one validation row, got none"):
        asked(rows=torch.arange(0))
    with pytest.raises(ValueError, match=r"one row for each of the \d+ nodes, got 7"):
        asked(labels=trained.y[:7])
    with pytest.raises(
        TypeError, match=r"noise must be a rade.Rates, such as rade.Rates\(p=0.0, q=1e-4\), got \(0, 0.1\)"
    ):
        rade.Denoised(noise=(0, 0.1))


def test_a_clean_graph_has_no_noise(trained):
    found = trained.estimate(trained.graph)
    assert found.chosen.share == 0.0
    assert found.rates == rade.Rates(0.0, 0.0)
    assert found.interval[0] == 0.0
    assert trained.accuracy(trained.graph, found.inference) == trained.accuracy(trained.graph, rade.Expected())


class Told(Evidence):
    """Evidence that tells a share of its own, and trusts all edges alike."""

    def __init__(self, name: str, told: float) -> None:
        self.name, self.told = name, told

    def trust(self, share: float) -> rade.Trust:
        return rade.Trust()


def test_kinds_of_evidence_that_tell_the_same_share_are_both_tried(trained):
    found = trained.estimate(trained.graph, by_edge=[Told("one", 0.77), Told("other", 0.77)], shares=[0.5])
    assert [(one.share, one.by) for one in found.curve if one.share > 0.5] == [(0.77, "one"), (0.77, "other")]


def test_a_wide_interval_without_zero_is_no_indifference(trained):
    """No noise is right in half of the rows, every other share in nine of ten."""
    rows = torch.arange(100)
    right = {share: (rows < (50 if share == 0.0 else 90)).float() for share in (0.0, 0.1, 0.4, 0.7)}
    scored = {share: Candidate(share, 0.0, "", float(of.mean())) for share, of in right.items()}
    guesses = [Guess(scored[share], trained.graph, None, of) for share, of in right.items()]
    told = NoiseEstimate(tuple(guesses), None)
    assert told.interval == (0.1, 0.7)
    assert "(10% to 70% do as well)" in str(told)
    alike = [replace(guess, right=right[0.0]) for guess in guesses]
    assert "(as any other share does)" in str(NoiseEstimate(tuple(alike), None))


def test_noise_is_found_and_undone(trained):
    """Twice as many spurious edges as real ones; seen: 62 to 87 %."""
    noisy = Corruption(add=2.0, seed=1).of(trained.graph)
    plain, found = trained.accuracy(noisy, rade.Expected()), trained.estimate(noisy)
    print(found, plain, trained.accuracy(noisy, found.inference))
    assert found.interval[0] <= found.chosen.share <= found.interval[1]
    assert 0.3 <= found.chosen.share <= 0.85
    assert trained.accuracy(noisy, found.inference) > plain + 0.03
    assert len(found.curve) > 15
    assert "of the observed edges spurious fits best" in str(found)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_a_wrong_rate_still_helps(trained, factor):
    corruption = Corruption(add=0.7, seed=2)
    noisy = corruption.of(trained.graph)
    share = min(factor * corruption.share, 0.9)
    better = trained.accuracy(noisy, rade.Denoised(rates_of(noisy, share)))
    assert better >= trained.accuracy(noisy, rade.Expected())


def test_equal_graphs_have_equal_estimates(trained):
    noisy = Corruption(add=1.0).of(trained.graph)
    assert trained.estimate(noisy).curve == trained.estimate(noisy).curve


def test_without_features_of_nodes_edges_are_trusted_alike(trained):
    found = trained.estimate(trained.graph, by_edge=False)
    assert found.similar is None
    assert not any(guess.by_edge for guess in found.curve)


def test_labels_are_read_by_the_shape_of_the_outputs(trained):
    """One output per row is a yes or no, whole numbers or not; "no noise" is tried and preferred in any order."""
    net = seeded(lambda: Net(LAYERS["GCNConv"], features=trained.x.shape[1], classes=1))
    model = rade.RADE(net, rule=rade.Constant(0, 0)).eval()
    yes = (trained.y == 0).long()
    rows = torch.arange(len(yes))
    call = functools.partial(
        rade.estimate_noise, model, trained.x, trained.graph, rows=rows, by_edge=False, shares=(0,)
    )
    found = call(labels=yes, drops=(0.4, 0.2))
    assert [guess.drop for guess in found.curve] == [0.0, 0.2, 0.4]
    right = (model(trained.x, trained.graph).squeeze(1) > 0) == yes.bool()
    assert found.curve[0].score == pytest.approx(float(right.float().mean()))
    assert call(labels=yes.float()[:, None]).curve[0] == call(labels=yes).curve[0] == found.curve[0]
    three = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"], features=trained.x.shape[1])), rule=rade.Constant(0, 0))
    call = functools.partial(rade.estimate_noise, three.eval(), trained.x, trained.graph, rows=rows, shares=(0,))
    targets = torch.nn.functional.one_hot(trained.y % 3, 3)
    assert call(labels=targets).curve == call(labels=targets.float()).curve
    with pytest.raises(ValueError, match=r"classes \[n\], or targets of the outputs' shape"):
        call(labels=targets[:, :2])


def test_a_model_in_training_is_refused(trained):
    model = rade.RADE(Net(LAYERS["GCNConv"]))
    with pytest.raises(RuntimeError, match=r"evaluation mode: call model.eval\(\) first"):
        rade.estimate_noise(model, trained.x, trained.graph, labels=trained.y, rows=torch.arange(5))


@pytest.mark.parametrize(("add", "drop"), [(1.0, 0.0), (0.5, 0.5), (0.0, 0.3)])
def test_rates_follow_from_the_share(add, drop):
    """As many spurious edges as the corruption adds."""
    graph, corruption = communities(1.0)[2], Corruption(drop, add, seed=3)
    noisy = corruption.of(graph)
    rates, true = rates_of(noisy, corruption.share, drop), corruption.rates(graph)
    assert rates.p == true.p
    assert rates.q == pytest.approx(true.q, rel=0.05, abs=1e-12)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\), got 1"):
        rates_of(graph, 1.0)
    with pytest.raises(ValueError, match=r"rate of missing edges must lie in \[0, 1\), got 1; none would be left"):
        rates_of(graph, 0.1, drop=1.0)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_two_groups_find_the_share_where_real_edges_are_alike(share):
    draws = torch.Generator().manual_seed(0)
    random = 0.1 * torch.randn(50_000, generator=draws)
    spurious = torch.rand(20_000, generator=draws) < share
    edges = torch.where(spurious, 0.0, 0.5) + 0.1 * torch.randn(20_000, generator=draws)
    groups = TwoGroups.of(edges, random)
    assert groups.share == pytest.approx(share, abs=0.05)
    real = groups.real(groups.share)
    assert bool((real.diff() >= 0).all())
    found = real[groups.bin_of(edges)]
    assert found[~spurious].mean() > 0.95
    assert found[spurious].mean() < 0.15  # the share is a little underestimated


def test_trust_tells_spurious_edges_from_real_ones():
    x, _, graph = communities(2.0)
    corruption = Corruption(add=1.0, seed=4)
    noisy = corruption.of(graph)
    dense = torch.zeros(NODES, NODES, dtype=torch.bool)
    dense[graph.pattern.target, graph.pattern.source] = True
    real = dense[noisy.pattern.target, noisy.pattern.source]
    evidence = EdgeEvidence.of(noisy, x, torch.Generator().manual_seed(0))
    trust = evidence.trust(corruption.share)
    assert trust.edges[real].mean() > trust.edges[~real].mean() + 0.2
    assert trust.spurious == pytest.approx(float(trust.edges[~real].mean()), abs=0.05)
    assert trust.real == pytest.approx(float(trust.edges[real].mean()), abs=0.05)
    assert float(trust.ends.mean()) == pytest.approx(1.0)


def test_shares_of_random_pairs_may_add_up_to_a_little_more_than_one(trained):
    evidence = EdgeEvidence.of(trained.graph, trained.x, torch.Generator().manual_seed(0))
    random = evidence.groups.random * (1.0 + 2.0**-50) / evidence.groups.random.sum()
    trust = replace(evidence, groups=replace(evidence.groups, random=random)).trust(0.0)
    assert trust.spurious == trust.real == 1.0


def test_partners_are_others_of_the_same_graph():
    graph = GRAPHS["batch"]
    first, other = partners(graph, 200, torch.Generator().manual_seed(0))
    assert bool((first != other).all())
    assert torch.equal(graph.batch[first], graph.batch[other])
    counts = torch.zeros(7, 7).index_put((first, other), torch.ones(len(first)), accumulate=True)
    expected = 200.0 / (graph.size - 1)[:, None] * (graph.batch[:, None] == graph.batch) * (1 - torch.eye(7))
    assert bool(((counts - expected).abs() < 60).all())


def test_cosines_of_sparse_features_are_those_of_dense_ones():
    x = torch.randn(30, 12, generator=torch.Generator().manual_seed(0)).relu()
    x[3] = 0.0
    pairs = torch.randint(0, 30, (2, 100), generator=torch.Generator().manual_seed(1))
    pairs[0, 0] = 3
    torch.testing.assert_close(cosine(x.to_sparse_csr(), pairs), cosine(x, pairs))
    assert cosine(x, pairs)[0] == 0.0
