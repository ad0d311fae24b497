"""The variance of logits against all views of small graphs."""

from __future__ import annotations

import pytest
import torch
from rates_problem import AGGREGATORS, GRAPHS, C, all_views, normal, outputs, variance_of

from rade.correction import Adjacency
from rade.distribution import Distribution, Rates, Variant, Views
from rade.moments.base import Coefficients, Moments, Weights
from rade.moments.normalised import Normalised
from rade.nn.trace import Aggregated
from rade.rates.all_layers import AllLayers
from rade.rates.variance import LogitMessages, pooled_variance, variance
from rade.sums import Messages, Sums

close = {"rtol": 1e-10, "atol": 1e-12}
every_variant = pytest.mark.parametrize("variant", Variant)


def sums_on(name: str, variant: Variant, edges: bool = False) -> tuple[LogitMessages, Distribution]:
    graph = GRAPHS[name]
    nodes = normal(graph.num_nodes, C, seed=3)
    messages = Messages(nodes, normal(graph.pattern.size, C, seed=4)) if edges else nodes
    return LogitMessages(AGGREGATORS["sum"](graph), messages), Distribution(graph, Rates(0.3, 0.2), variant)


class Heads(Normalised):
    """Plain sums with two heads of constant weights, which share their edges."""

    scale = torch.tensor([0.7, -1.3], dtype=torch.double)

    def clean(self) -> Weights:
        return self._times(super().clean())

    def on(self, view):
        return self._times(super().on(view))

    def _times(self, weights: Weights) -> Weights:
        return Weights(*(part[:, None] * self.scale for part in (weights.edges, weights.loop, weights.added)))

    def mean(self, distribution: Distribution) -> Moments:
        found = super().mean(distribution)
        return Moments(found.edges[:, None] * self.scale, found.loop[:, None] * self.scale, Sums(self.graph))

    def variance(self, distribution: Distribution) -> Moments:
        found = super().variance(distribution)
        return Moments(found.edges[:, None] * self.scale.square(), found.loop[:, None] * self.scale, Sums(self.graph))

    covariance = Coefficients.covariance
    ratio = Coefficients.ratio
    key = None


@pytest.mark.parametrize("name", ["path", "near-clique", "directed"])
def test_heads_share_their_edges(name):
    """Exactly, on edges; at nodes and pooled."""
    graph = GRAPHS[name]
    sent = LogitMessages(Heads(graph, torch.double, 0.0, 0.0), normal(graph.num_nodes, 2, C))
    distribution = Distribution(graph, Rates(0.3, 0.0))
    values, chances = outputs(distribution, sent)
    values = values.sum(2)
    torch.testing.assert_close(variance(sent, distribution).total, variance_of(values, chances), **close)
    found = pooled_variance(sent, distribution, mean=False, exact=True).total
    torch.testing.assert_close(found, variance_of(values.sum(1, keepdim=True), chances), **close)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@every_variant
@pytest.mark.parametrize("rows", [[5, 0], [2, 2, 4], [0, 1, 2, 3, 4]], ids=["few", "repeated", "most"])
def test_some_rows_are_rows_of_all(aggregator, variant, rows):
    graph, index = GRAPHS["batch"], torch.tensor(rows)
    sent = LogitMessages(AGGREGATORS[aggregator](graph), normal(6, C))
    distribution = Distribution(graph, Rates(0.3, 0.2), variant)
    some, every = variance(sent, distribution, index), variance(sent, distribution)
    torch.testing.assert_close(some.drop, every.drop[index], **close)
    torch.testing.assert_close(some.add, every.add[index], **close)
    one = pooled_variance(sent, distribution, mean=True, exact=True, rows=torch.tensor([1]))
    torch.testing.assert_close(one.add, pooled_variance(sent, distribution, mean=True, exact=True).add[1:], **close)


@pytest.mark.parametrize("shared", [False, True], ids=["a view for each", "one view"])
@every_variant
@pytest.mark.parametrize("name", ["path", "isolated", "directed"])
def test_all_layers_of_a_sum_are_exact_on_average_over_views(name, variant, shared):
    """One layer, twice: as two layers whose outputs add up, and as one; drops on any view, additions in the mean."""
    sent, _ = sums_on(name, variant)
    graph, m, form = GRAPHS[name], sent.messages, normal(GRAPHS[name].num_nodes, C, seed=5)
    distribution = Distribution(graph, Rates(0.3, 0.2), variant, views=Views(shared=shared))
    first, second = (torch.zeros_like(m, requires_grad=True) for _ in range(2))

    def done(adjacency: Adjacency, output: torch.Tensor) -> Aggregated:
        return Aggregated(adjacency, sent.coefficients, m, output, lambda head: head)

    mean = [done(Adjacency(graph, distribution), out) for out in (first, second)]
    total = torch.zeros((), dtype=torch.double)
    for chance, view in all_views(distribution):
        training = [done(Adjacency(graph, distribution, view), m) for _ in range(2)]
        drop, add = AllLayers(first + second, mean, training).variance(distribution, form)
        total += chance * (drop + add)
    values, chances = outputs(distribution, sent)
    expected = variance_of((values * form).sum((1, 2)), chances)
    torch.testing.assert_close(total, (4 if shared else 2) * expected, **close)
    with pytest.raises(ValueError, match=r"aggregated 1 times and the mean pass 2 times"):
        AllLayers(first, mean, mean[:1])
