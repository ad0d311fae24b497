"""The RADE regulariser R of a batch, the norm of its gradient and of the data's, slopes in the rates (Eq. 13–14)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.distribution import Distribution, Rates
from rade.graph.graph import Graph
from rade.moments.base import RateFactors
from rade.nn.trace import logits_in
from rade.rates.readout import Labelled, Readout
from rade.rates.variance import LogitMessages, LogitVariance
from rade.runtime import Recall, average

REFERENCE = Rates(p=0.5, q=0.5)  # where the two base variances of a separable aggregator are read off


@dataclass(frozen=True, eq=False)
class CleanPass:
    """A pass over the input graph in evaluation mode: its logits, and what its last convolution sent to them."""

    logits: Tensor
    graph: Graph
    messages: LogitMessages
    nodes: Tensor | None = None  # of the logits' rows, where not every node has one


@dataclass(frozen=True, eq=False)
class Regulariser:
    """R(p, q) = 1/(2|B|) Σ_{i∈B} Σ_c w_ic Var(δ_ic), w = prob(1−prob) on the input graph (Eq. 13).

    ``weight`` [|B|, C] carries the gradients to θ; ``variance`` gives the detached Var(δ) [|B|, C] of a distribution.
    For a squared error it is the other way round: w = 1, and the gradients flow through Var(δ). ``factors`` are those
    of the rates where R = a(p) R_drop + b(q) R_add, as for sums (Appendix G); None elsewhere.
    """

    weight: Tensor
    variance: Callable[[Distribution], LogitVariance]
    distribution: Distribution
    parameters: Sequence[Parameter]
    factors: RateFactors | None = None

    def __call__(self, rates: Rates) -> Tensor:
        """R at the given rates."""
        return self._mean(self.variance(self.distribution.at(rates)).total)

    def norm(self, rates: Rates) -> tuple[Tensor, Tensor]:
        """G = ‖∇θR‖ and [dG/dp, dG/dq]; in closed form where the rates are mere factors."""
        if not self.parameters:
            raise ValueError("no parameter of the model learns, so R has no gradient; use rade.Constant()")
        return self._by_autograd(rates) if self.factors is None else self._by_factors(rates, self.factors)

    def _by_autograd(self, rates: Rates) -> tuple[Tensor, Tensor]:
        """One backward and one double-backward pass.

        With v = ∇θR, dG/dp = ⟨v, ∂v/∂p⟩/‖v‖ is the derivative of ⟨v, v held fixed⟩, over ‖v‖. Under data-parallel
        training v is averaged over the ranks first, then the inner products are.
        """
        p, q = torch.as_tensor(rates.p), torch.as_tensor(rates.q)
        v = _flat(gradients(self(rates), self.parameters, create_graph=True))
        fixed = average(v.detach())
        norm = fixed.double().norm()
        zero, moving = norm.new_zeros(()), [rate for rate in (p, q) if rate.requires_grad and v.requires_grad]
        found = iter(torch.autograd.grad(v, moving, fixed, allow_unused=True, materialize_grads=True) if moving else ())
        along = torch.stack([next(found, zero) if rate.requires_grad else zero for rate in (p, q)])
        return norm, average(along) / torch.where(norm > 0, norm, 1.0)

    def _by_factors(self, rates: Rates, factors: RateFactors) -> tuple[Tensor, Tensor]:
        """G² = a²‖v_drop‖² + b²‖v_add‖² + 2ab⟨v_drop, v_add⟩: two backward passes, nothing is differentiated twice."""
        base = self.variance(self.distribution.at(REFERENCE))
        parts = [self._mean(part / factor) for part, factor in zip((base.drop, base.add), factors(REFERENCE))]
        drop, add = (average(_flat(gradients(part, self.parameters)).double()) for part in parts)
        p, q = (torch.as_tensor(rate, dtype=torch.double).detach().requires_grad_() for rate in (rates.p, rates.q))
        a, b = factors(Rates(p, q))
        square = torch.as_tensor(a * a * drop.dot(drop) + b * b * add.dot(add) + 2.0 * a * b * drop.dot(add))
        along = torch.stack(torch.autograd.grad(square, (p, q), allow_unused=True, materialize_grads=True))
        norm = square.detach().clamp(min=0).sqrt()
        return norm, 0.5 * along / torch.where(norm > 0, norm, 1.0)

    def _mean(self, variance: Tensor) -> Tensor:
        return 0.5 * (self.weight * variance).sum() / max(self.weight.shape[0], 1)


def regulariser(
    clean: CleanPass,
    readout: Readout,
    labelled: Labelled,
    distribution: Distribution,
    parameters: Sequence[Parameter],
    generator: torch.Generator | None = None,
) -> Regulariser:
    """R of a clean pass over its labelled rows, as a function of the rates.

    generator: for the random signs that `Readout(loss=...)` is differentiated with; it is not advanced.
    """
    scores = readout.scores(clean.logits, clean.graph, clean.nodes)
    chosen = labelled.chosen(scores.shape[0], scores.device)
    at = scores.index_select(0, chosen)
    curvature = readout.curvature(at, chosen, generator)
    if scores.requires_grad and not readout.is_flat and _is_constant(curvature, at, readout, chosen, generator):
        raise ValueError(
            "the curvature of this loss does not depend on the model (a squared, absolute or hinge loss), so its "
            "regulariser has no gradient through it, and rates would run away; say "
            "Readout(task='regression') for a squared error, or use rule=rade.NoiseRatio() or rade.Constant()"
        )
    rows = chosen if clean.nodes is None else picked(clean.nodes, chosen)
    return Regulariser(
        labelled.masked(curvature),
        partial(readout.variance, clean.messages, rows=rows),
        distribution,
        parameters,
        clean.messages.coefficients.rate_factors(distribution),
    )


def _is_constant(
    curvature: Tensor, at: Tensor, readout: Readout, rows: Tensor, generator: torch.Generator | None
) -> bool:
    """Whether a curvature does not depend on the logits; autograd may think that one of a loss of a user's own does."""
    if not curvature.requires_grad or readout.loss is None:
        return not curvature.requires_grad
    elsewhere = at.detach() + torch.linspace(0.0, 1.0, at.numel()).to(at).view_as(at)
    return torch.allclose(readout.curvature(elsewhere, rows, generator), curvature)


_picked: Recall[Tensor] = Recall()


def picked(nodes: Tensor, rows: Tensor) -> Tensor:
    """nodes[rows], the same tensor each time, so that what follows from it is recalled."""
    return _picked.get((nodes, rows), None, lambda: nodes[rows])


def refuse_reentrant(output: object) -> None:
    """Refuse a pass whose checkpoints `torch.autograd.grad` does not look into: R would have no gradient in there."""
    logits, seen = logits_in(output), set()
    stack = [None if logits is None else logits.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if node.name() == "CheckpointFunctionBackward":
            raise ValueError(
                "the gradient of the regulariser cannot be taken through activation checkpoints with "
                "use_reentrant=True: pass use_reentrant=False to torch.utils.checkpoint.checkpoint, or use "
                "rule=rade.NoiseRatio() or rade.Constant()"
            )
        seen.add(node)
        stack.extend(parent for parent, _ in node.next_functions)


class NoGradient(RuntimeError):
    """There is no gradient that a rate step could look at."""


def gradient_norm(parameters: Sequence[Parameter]) -> Tensor:
    """‖∇θL‖ of the gradients that ``loss.backward()`` left."""
    norms = [parameter.grad.detach().double().norm() for parameter in parameters if parameter.grad is not None]
    if not norms:
        raise NoGradient(
            "adapt() needs the gradients of the training step: call it after loss.backward() and before zero_grad()"
        )
    norm: Tensor = torch.stack(norms).norm()
    if bool(norm == 0):
        warnings.warn(
            "all gradients that adapt() found are zero: it must be called after loss.backward() and before "
            "zero_grad(), or the rates drift",
            stacklevel=2,
        )
    return norm


def clean_gradient_norm(logits: Tensor, labelled: Labelled, parameters: Sequence[Parameter]) -> Tensor:
    """‖∇θL‖ on the input graph, the authors' choice, for comparison."""
    if labelled.loss is None:
        raise ValueError(
            "data_gradient='clean' needs the loss on the input graph: "
            "adapt(..., labelled=rade.Labelled(rows, loss=lambda logits: ...))"
        )
    found = gradients(labelled.weight * labelled.loss(logits), parameters)
    norm: Tensor = average(_flat(found).double()).norm()
    return norm


def gradients(value: Tensor, inputs: Sequence[Tensor], create_graph: bool = False) -> tuple[Tensor, ...]:
    """∂value/∂input for each, zero where it does not depend on one; what it was computed by stays."""
    return torch.autograd.grad(
        value, inputs, create_graph=create_graph, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([*map(torch.flatten, map(Tensor.to_dense, parts))])  # an embedding's may be sparse
