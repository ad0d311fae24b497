"""The variance of logits where the laws do not look: heads together, some rows, and all layers of a model."""

import pytest
import torch
from torch import Tensor

from rade.correction import Adjacency
from rade.distribution import Distribution, Rates, Variant, Views
from rade.moments import Coefficients, Moments, Normalised, Weights
from rade.nn.trace import Aggregated
from rade.rates.all_layers import variance_of_all_layers
from rade.rates.variance import LogitMessages, pooled_variance, variance
from rade.sums import Sums
from rade.testing import GRAPHS, AllViews
from rade.testing.aggregators import normal
from rade.views import View
from zoo import NORMALISED

C = 3
close = {"rtol": 1e-10, "atol": 1e-12}
every_variant = pytest.mark.parametrize("variant", Variant)


class Heads(Coefficients):
    """Plain sums with two heads of constant weights, which share their edges; nothing is added."""

    scale = torch.tensor([0.7, -1.3], dtype=torch.double)

    def clean(self) -> Weights:
        return Weights(self.scale.expand(self.graph.pattern.size, 2), self.no_loop(), self.no_loop()[:0])

    def on(self, view: View) -> Weights:
        return Weights(view.kept[:, None] * self.scale, self.no_loop(), self.no_loop()[:0])

    def mean(self, distribution: Distribution) -> Moments:
        return self._alike((1.0 - distribution.rates.p) * self.scale)

    def variance(self, distribution: Distribution) -> Moments:
        return self._alike(distribution.rates.p * (1.0 - distribution.rates.p) * self.scale.square())

    def _alike(self, each: Tensor) -> Moments:
        return Moments(each.expand(self.graph.pattern.size, 2), self.no_loop(), Sums(self.graph))

    def no_loop(self) -> Tensor:
        return torch.zeros(self.graph.num_nodes, 2, dtype=torch.double)


@pytest.mark.parametrize("name", ["path", "near-clique", "directed"])
def test_heads_share_their_edges(name):
    """Exactly, on edges; at nodes and pooled."""
    graph, distribution = GRAPHS[name], Distribution(GRAPHS[name], Rates(0.3, 0.0))
    views, messages = AllViews(distribution), normal(graph.num_nodes, 2, C)
    values = views.aggregate(lambda graph, _, dtype: Heads(graph, dtype), messages).sum(2)
    sent = LogitMessages(Heads(graph, torch.double), messages)
    torch.testing.assert_close(variance(sent, distribution).total, views.variance(values), **close)
    found = pooled_variance(sent, distribution, mean=False, exact=True).total
    torch.testing.assert_close(found, views.variance(values.sum(1, keepdim=True)), **close)


@pytest.mark.parametrize("aggregator", NORMALISED)
@every_variant
@pytest.mark.parametrize("rows", [[5, 0], [2, 2, 4], [0, 1, 2, 3, 4, 6]], ids=["few", "repeated", "most"])
def test_some_rows_are_rows_of_all(aggregator, variant, rows):
    graph, index = GRAPHS["batch"], torch.tensor(rows)
    sent = LogitMessages(NORMALISED[aggregator](graph, torch.double), normal(graph.num_nodes, C))
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
    """One layer, twice: as two layers whose outputs add up, and as one; drops on any view, additions in the mean.

    All views are copies in one batch. A form that is √probability in each has their mean.
    """
    views = AllViews(Distribution(GRAPHS[name], Rates(0.3, 0.2), variant, views=Views(shared=shared)))
    graph, distribution = views.copies, views.view.distribution
    m, form = (normal(views.graph.num_nodes, C, seed=seed) for seed in (3, 5))
    outputs = [torch.zeros(graph.num_nodes, C, dtype=torch.double, requires_grad=True) for _ in range(2)]

    def done(adjacency: Adjacency) -> list[Aggregated]:
        coefficients = Normalised.sum(graph, torch.double)
        return [Aggregated(adjacency, coefficients, views.repeat(m), out, lambda head: head) for out in outputs]

    mean, training = done(Adjacency(graph, distribution)), done(Adjacency(graph, distribution, views.view))
    weighted = (views.weight.sqrt()[:, None, None] * form).flatten(0, 1)
    found = sum(variance_of_all_layers(outputs[0] + outputs[1], mean, training, distribution, weighted))
    values = views.aggregate(lambda graph, _, dtype: Normalised.sum(graph, dtype), m)
    expected = views.variance((values * form).sum((1, 2)))
    torch.testing.assert_close(found, (4 if shared else 2) * expected, **close)
    with pytest.raises(ValueError, match=r"aggregated 1 times and the mean pass 2 times"):
        variance_of_all_layers(outputs[0], mean, mean[:1], distribution, weighted)
