"""The RADE regulariser R of a batch, the norm of its gradient, and how that norm changes with the rates (Eq. 13–14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.variance import LogitVariance
from rade.distributed import average
from rade.graph.graph import Graph
from rade.graph.nodes import picked
from rade.moments.base import RateFactors, Sent
from rade.view.law import Law
from rade.view.rates import Rates

REFERENCE = Rates(p=0.5, q=0.5)  # where the two base variances of a separable aggregator are read off


@dataclass(frozen=True, eq=False)
class CleanPass:
    """A pass over the input graph in evaluation mode: its logits, and what its last convolution sent to them."""

    logits: Tensor
    graph: Graph
    sent: Sent
    nodes: Tensor | None = None  # of the logits' rows, where not every node has one


@dataclass(frozen=True, eq=False)
class Regulariser:
    """R(p, q) = 1/(2|B|) Σ_{i∈B} Σ_c w_ic Var(δ_ic), w = prob(1−prob) on the input graph (Eq. 13).

    ``weight`` [|B|, C] carries the gradients to θ; ``variance`` gives the detached Var(δ) [|B|, C] under a law. For a
    squared error it is the other way round: w = 1, and the gradients flow through Var(δ).
    """

    weight: Tensor
    variance: Callable[[Law], LogitVariance]
    law: Law
    parameters: Sequence[Parameter]

    def __call__(self, rates: Rates) -> Tensor:
        """R at the given rates."""
        return self._mean(self.variance(self.law.at(rates)).total)

    def norm(self, rates: Rates) -> tuple[Tensor, Tensor]:
        """G = ‖∇θR‖ and [dG/dp, dG/dq], by one backward and one double-backward pass.

        With v = ∇θR, dG/dp = ⟨v, ∂v/∂p⟩/‖v‖ is the derivative of ⟨v, v held fixed⟩, over ‖v‖. Under data-parallel
        training v is averaged over the ranks first, then the inner products are.
        """
        p, q = torch.as_tensor(rates.p), torch.as_tensor(rates.q)
        v = _gradient(self(rates), self.parameters, create_graph=True)
        fixed = average(_flat(v).detach())
        norm = fixed.double().norm()
        wanted = [rate for rate in (p, q) if rate.requires_grad]
        # ⟨v, fixed⟩ is never formed: its derivative is what v passes back when given `fixed`.
        given = [part.view_as(of) for part, of in zip(torch.split(fixed, [of.numel() for of in v]), v)]
        moves = [(part, cotangent) for part, cotangent in zip(v, given) if part.requires_grad]
        found = iter(_pulled_back(moves, wanted))
        along = torch.stack([next(found) if rate.requires_grad else norm.new_zeros(()) for rate in (p, q)])
        return norm, average(along) / torch.where(norm > 0, norm, 1.0)

    def _mean(self, variance: Tensor) -> Tensor:
        return 0.5 * (self.weight * variance).sum() / max(self.weight.shape[0], 1)


@dataclass(frozen=True, eq=False)
class SeparableRegulariser(Regulariser):
    """R = a(p) R_drop + b(q) R_add for sum aggregation: closed form in the two base gradients (Appendix G).

    ``factors`` gives a and b. Two plain backward passes serve any rates; nothing is differentiated twice.
    """

    factors: RateFactors

    def norm(self, rates: Rates) -> tuple[Tensor, Tensor]:
        """G² = a²‖v_drop‖² + b²‖v_add‖² + 2ab⟨v_drop, v_add⟩."""
        base = self.variance(self.law.at(REFERENCE))
        at_reference = self.factors(REFERENCE)
        parts = [self._mean(v / f) for v, f in zip((base.drop, base.add), at_reference)]
        drop, add = (average(_flat(_gradient(part, self.parameters, retain_graph=True)).double()) for part in parts)
        p, q = (torch.as_tensor(rate, dtype=torch.double).detach().requires_grad_() for rate in (rates.p, rates.q))
        a, b = self.factors(Rates(p, q))
        square = torch.as_tensor(a * a * drop.dot(drop) + b * b * add.dot(add) + 2.0 * a * b * drop.dot(add))
        along = torch.stack(torch.autograd.grad(square, (p, q), allow_unused=True, materialize_grads=True))
        norm = square.detach().clamp(min=0).sqrt()
        return norm, 0.5 * along / torch.where(norm > 0, norm, 1.0)


def regulariser(
    clean: CleanPass, readout: Readout, labelled: Labelled, law: Law, parameters: Sequence[Parameter]
) -> Regulariser:
    """R of a clean pass over its labelled rows, as a function of the rates; in closed form where there is one."""
    scores = readout.scores(clean.logits, clean.graph, clean.nodes)
    chosen = labelled.chosen(scores.shape[0], scores.device)
    weight = labelled.masked(readout.curvature(scores.index_select(0, chosen), chosen, law.generator))
    if scores.requires_grad and not readout.is_flat and _is_constant(weight, scores, readout, chosen, law):
        raise ValueError(
            "the curvature of this loss does not depend on the model (a squared, absolute or hinge loss), so its "
            "regulariser has no gradient to follow by way of it, and rates would run away; say "
            "Readout(task='regression') for a squared error, or use rule=rade.NoiseRatio() or rade.Constant()"
        )
    rows = chosen if clean.nodes is None else picked(clean.nodes, chosen)

    def variance(law: Law) -> LogitVariance:
        return readout.variance(clean.sent, law, rows)

    factors = clean.sent.coefficients.rate_factors(law)
    if factors is None:
        return Regulariser(weight, variance, law, parameters)
    return SeparableRegulariser(weight, variance, law, parameters, factors)


def _is_constant(weight: Tensor, scores: Tensor, readout: Readout, rows: Tensor, law: Law) -> bool:
    """Whether a curvature does not depend on the logits; one of a user's own may only seem to, by a slope of 0."""
    if not weight.requires_grad or readout.is_known:
        return not weight.requires_grad
    (slope,) = _gradient(weight.sum(), [scores], retain_graph=True)
    if bool((slope != 0).any()):
        return False
    at = scores[rows].detach()
    elsewhere = readout.curvature(at + torch.linspace(0.0, 1.0, at.numel()).to(at).view_as(at), rows, law.generator)
    return torch.allclose(elsewhere, readout.curvature(at, rows, law.generator))


def _gradient(
    value: Tensor, parameters: Sequence[Tensor], create_graph: bool = False, retain_graph: bool = False
) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        value,
        parameters,
        create_graph=create_graph,
        retain_graph=create_graph or retain_graph,
        allow_unused=True,
        materialize_grads=True,
    )


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def _pulled_back(moves: list[tuple[Tensor, Tensor]], wanted: list[Tensor]) -> tuple[Tensor, ...]:
    """Σ ⟨cotangent, ∂output/∂rate⟩ for each wanted rate."""
    if not wanted or not moves:
        return tuple(torch.zeros_like(rate) for rate in wanted)
    outputs, cotangents = zip(*moves)
    return torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True, materialize_grads=True)
