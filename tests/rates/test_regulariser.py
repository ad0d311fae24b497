"""R, the norm of its gradient, and its slopes in the rates: against autograd, finite differences and closed forms."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import cross_entropy

from rade.distribution import Distribution, Rates, Variant
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass, Regulariser, regulariser
from rade.rates.rules import EPSILON, GradNorm, Seen
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


def objective(problem: Problem, p: float, rho: float, by_autograd: bool) -> tuple[Tensor, Tensor]:
    """J and its slope, as the rule has them."""
    found = problem.regulariser()
    rule = GradNorm(p, rho, penalty=PENALTY)
    seen = Seen(replace(found, factors=None) if by_autograd else found, DATA_NORM)
    return rule.objective(rule.init(), torch.tensor(DENSITY, dtype=torch.double), seen)


@pytest.mark.parametrize("pool", [None, "sum", "mean"])
@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize(("p", "rho"), [(0.3, 0.6), (0.8, 1.5), (0.05, 0.02)])
@pytest.mark.parametrize("aggregator", NORMALISED)
def test_the_slope_of_the_objective_is_double_backward_autograd(aggregator, p, rho, variant, pool):
    """dJ/dp and dJ/dρ, nodes and pooled graphs; the general form and the one that the library picks."""
    problem = Problem(aggregator, "isolated" if pool is None else "batch", variant, pool=pool)
    at = [torch.tensor(value, dtype=torch.double, requires_grad=True) for value in (p, rho)]
    expected = problem.objective(*at)
    slope = torch.stack(torch.autograd.grad(expected, at))
    for by_autograd in (False, True):
        value, found = objective(problem, p, rho, by_autograd)
        torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=0)
        torch.testing.assert_close(found, slope, rtol=1e-6, atol=1e-6 * float(slope.abs().max()))


def test_rows_and_known_labels_are_those_of_the_loss():
    """R over some rows, with some labels unknown and a factor for this process, written down."""
    problem = Problem("symmetric", "path")
    rows, known = torch.tensor([2, 0]), torch.tensor([[True, False, True], [True, True, False]])
    found = problem.regulariser(Labelled(rows, known, weight=3.0))(Rates(0.3, 0.1))
    chance = problem.clean.logits[rows].softmax(1)
    total = problem.readout.variance(problem.clean.messages, problem.distribution.at(Rates(0.3, 0.1)), rows).total
    torch.testing.assert_close(found, 3.0 * 0.5 * (known * chance * (1 - chance) * total).sum() / 2)
    # Logits of some nodes only: rows are counted among these.
    nodes, some = torch.tensor([3, 2, 0]), problem.clean.logits[[3, 2, 0]]
    problem.clean = CleanPass(some, problem.graph, problem.clean.messages, nodes)
    again = problem.regulariser(Labelled(torch.tensor([1, 2]), known, weight=3.0))
    torch.testing.assert_close(again(Rates(0.3, 0.1)), found)


def test_a_loss_of_ones_own_has_the_curvature_of_its_task():
    """Cross-entropy by automatic differentiation is the softmax's closed form, in R and in the slopes of its norm."""
    said = Problem("mean", "path", loss=lambda z, rows: cross_entropy(z, rows % C, reduction="sum"))
    known = Problem("mean", "path")
    at = Rates(*(torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (0.3, 0.1)))
    for one, other in zip(said.regulariser().norm(at), known.regulariser().norm(at)):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("each", [torch.square, torch.abs])
def test_a_loss_without_a_curvature_of_its_own_is_refused(each):
    sentence = r"curvature of this loss does not depend on the model .*Readout\(task='regr"
    with pytest.raises(ValueError, match=sentence):
        Problem("symmetric", "path", loss=lambda z, rows: each(z).sum()).regulariser()
