"""A small model whose rates adapt, and its objective written down."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.distribution import Distribution, Rates, Variant
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass, Regulariser, regulariser
from rade.rates.rules import EPSILON
from rade.rates.variance import LogitMessages
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from zoo import NORMALISED

C = 3  # logits
DENSITY, PENALTY, DATA_NORM = 0.3, 0.7, torch.tensor(0.05, dtype=torch.double)


class Problem:
    """A small softmax model whose θ are two weight matrices, and an aggregator's variance of its logits."""

    def __init__(self, aggregator: str, name: str, variant: Variant = Variant.OF, **readout: Any) -> None:
        self.graph, self.readout = GRAPHS[name], Readout(**readout)
        self.parameters = [Parameter(normal(4, 6, seed=6)), Parameter(normal(C, 4, seed=7))]
        rows = self.graph.num_nodes if self.readout.pool is None else self.graph.num_graphs
        hidden = torch.tanh(normal(rows, 6, seed=8) @ self.parameters[0].t())
        coefficients = NORMALISED[aggregator](self.graph, torch.double)
        sent = LogitMessages(coefficients, normal(self.graph.num_nodes, C, seed=9))
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
