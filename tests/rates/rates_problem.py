"""Small graphs, aggregators, all views of a graph, and a model whose rates adapt."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.correction import training_sums
from rade.distribution import Distribution, Rates, Variant
from rade.graph.graph import Graph
from rade.moments.base import Coefficients
from rade.moments.normalised import Normalised
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass, Regulariser, regulariser
from rade.rates.rules import EPSILON
from rade.rates.variance import LogitMessages
from rade.sums import Messages
from rade.testing.aggregators import normal
from rade.testing.oracle import undirected
from rade.views import View

C = 3  # logits
DENSITY, PENALTY, DATA_NORM = 0.3, 0.7, torch.tensor(0.05, dtype=torch.double)


GRAPHS = {
    "path": undirected([(0, 1), (1, 2), (2, 3)], 4),
    "isolated": undirected([(0, 1), (0, 2), (1, 2)], 4),
    "near-clique": undirected([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)], 4),
    "batch": undirected([(0, 1), (1, 2), (3, 4)], 6, [0, 0, 0, 1, 1, 1]),
    "directed": Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 1]]), 3),
}
AGGREGATORS: dict[str, Callable[[Graph], Coefficients]] = {
    "sum": lambda graph: Normalised.sum(graph, torch.double),
    "mean": lambda graph: Normalised.mean_of(graph, torch.double),
    "symmetric": lambda graph: Normalised.symmetric(graph, torch.double),
}


def all_views(distribution: Distribution) -> list[tuple[float, View]]:
    """Every view of a graph of few pairs, with its probability."""
    graph, p, q = distribution.graph, float(distribution.rates.p), float(distribution.rates.q)
    others = torch.tensor([rank for rank in range(graph.num_pairs) if rank not in graph.edge_rank.tolist()]).long()
    found = []
    for kept in product((False, True), repeat=graph.num_edges):
        for added in product((False, True), repeat=len(others)):
            chance = (1 - p) ** sum(kept) * p ** (len(kept) - sum(kept)) * q ** sum(added)
            chance *= (1 - q) ** (len(added) - sum(added))
            pairs = graph.pairs_at(others[torch.tensor(added, dtype=torch.bool)])
            found.append((chance, View(distribution, torch.tensor(kept)[graph.edge_of_entry], pairs)))
    return found


def outputs(distribution: Distribution, sent: LogitMessages) -> tuple[Tensor, Tensor]:
    """What training aggregates on every view, [K, n, C], and the views' probabilities [K]."""
    chances, views = zip(*all_views(distribution))
    found = [training_sums(sent.coefficients, view).apply(sent.messages) for view in views]
    return torch.stack(found), torch.tensor(chances, dtype=torch.double)


def variance_of(values: Tensor, chances: Tensor) -> Tensor:
    mean = torch.tensordot(chances, values, 1)
    return torch.tensordot(chances, (values - mean).square(), 1)


class Problem:
    """A small softmax model whose θ are two weight matrices, and an aggregator's variance of its logits."""

    def __init__(self, aggregator: str, name: str, variant: Variant = Variant.OF, **readout: Any) -> None:
        self.graph, self.readout = GRAPHS[name], Readout(**readout)
        self.parameters = [Parameter(normal(4, 6, seed=6)), Parameter(normal(C, 4, seed=7))]
        rows = self.graph.num_nodes if self.readout.pool is None else self.graph.num_graphs
        hidden = torch.tanh(normal(rows, 6, seed=8) @ self.parameters[0].t())
        messages: Tensor | Messages = normal(self.graph.num_nodes, C, seed=9)
        sent = LogitMessages(AGGREGATORS[aggregator](self.graph), messages)
        self.clean = CleanPass(hidden @ self.parameters[1].t(), self.graph, sent)
        self.distribution = Distribution(self.graph, Rates(0.5, 0.5), variant)

    def regulariser(self, labelled: Labelled = Labelled()) -> Regulariser:  # noqa: B008 - a frozen value
        return regulariser(self.clean, self.readout, labelled, self.distribution, self.parameters)

    def objective(self, p: Tensor, rho: Tensor, data_norm: Tensor = DATA_NORM) -> Tensor:
        """J by the book: the gradient of R, its norm, the logarithm, the penalty; nothing shared with the library."""
        probability = self.clean.logits.softmax(-1)
        rows = torch.arange(len(probability))
        found = self.readout.variance(self.clean.messages, self.distribution.at(Rates(p, rho * DENSITY)), rows)
        r = 0.5 * (probability * (1.0 - probability) * found.total).sum() / len(rows)
        gradients = torch.autograd.grad(r, self.parameters, create_graph=True)
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        return torch.log((norm + EPSILON) / (data_norm + EPSILON)).square() + PENALTY * rho.square()
