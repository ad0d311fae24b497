"""How logits come about and are judged: the task and its curvature, the pooling, and the rows of the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import Module

from rade.distribution import Distribution
from rade.errors import choose
from rade.graph.graph import Graph
from rade.rates.variance import LogitMessages, LogitVariance, pooled_variance, variance
from rade.runtime import Recall
from rade.views import returning

TaskName = Literal["auto", "multiclass", "binary", "multilabel", "regression"]
Pool = Literal["sum", "mean"]
PoolingRule = Literal["exact", "paper"]
Loss = Callable[[Tensor, Tensor], Tensor]  # from logits [k, C] and row ids [k] to the sum of the rows' losses
SOFTMAX = ("auto", "multiclass")
SHIFT_FREE = 1e-3  # a softmax's gradient sums to 0 over classes, up to rounding
FIRST_STEPS = 5  # rate steps: later on the gradients of a loss may be all rounding


def softmax_curvature(logits: Tensor) -> Tensor:
    """prob(1−prob) of a softmax."""
    probability = logits.t().softmax(0).t()  # down columns of many numbers: ten times as fast as along rows of a few
    return probability * (1.0 - probability)


def sigmoid_curvature(logits: Tensor) -> Tensor:
    """prob(1−prob) of a sigmoid."""
    probability = logits.sigmoid()
    return probability * (1.0 - probability)


# From logits [k, C] to the diagonal of the loss's second derivative, [k, C].
CURVATURES: dict[str, Callable[[Tensor], Tensor]] = {
    "auto": softmax_curvature,
    "multiclass": softmax_curvature,
    "binary": sigmoid_curvature,
    "multilabel": sigmoid_curvature,
    "regression": torch.ones_like,  # half the squared error
}


@dataclass(frozen=True)
class Readout:
    """From the last convolution to the loss: what the regulariser must know of it.

    Attributes:
        task: ``"multiclass"`` (softmax), ``"binary"`` or ``"multilabel"`` (sigmoid), ``"regression"`` (squared error).
            ``"auto"`` is a softmax; where the gradient of the loss in the first steps tells otherwise, there is a
            warning.
        pool: how node features become graph features, ``"sum"`` or ``"mean"``; None at node level.
        pooling_rule: ``"exact"`` variance of a pooled logit, or the ``"paper"``'s sum of node variances.
        head: the linear layer(s) from the last (pooled) convolution to the logits, or their path in the model, where
            they cannot be told.
        loss: any other loss, from logits [k, C] and their row ids [k] to the sum over rows; its second derivative is
            then taken by automatic differentiation, in place of what ``task`` says.
    """

    task: TaskName = "auto"
    pool: Pool | None = None
    pooling_rule: PoolingRule = "exact"
    head: str | Module | None = None
    loss: Loss | None = None

    def __post_init__(self) -> None:
        choose("task", self.task, get_args(TaskName))
        if self.pool is not None:
            choose("pool", self.pool, get_args(Pool))  # PyG's global_add_pool is a sum
        choose("pooling_rule", self.pooling_rule, get_args(PoolingRule))

    @cached_property
    def is_softmax(self) -> bool:
        """Whether logits are taken for those of one class among several."""
        return self.task in SOFTMAX and self.loss is None

    @cached_property
    def is_flat(self) -> bool:
        """Whether the curvature is constant, so that R has a gradient in the parameters by way of Var(δ) alone."""
        return self.task == "regression" and self.loss is None

    def scores(self, logits: Tensor, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """The logits as a matrix, one row per node (of ``nodes``) or per graph; refuses what it cannot mean."""
        scores = logits if logits.dim() == 2 else logits[:, None]
        asked = graph.num_nodes if nodes is None else nodes.numel()
        count, what = (asked, "nodes") if self.pool is None else (graph.num_graphs, "graphs")
        if scores.shape[0] != count:
            raise ValueError(
                f"expected logits for {count} {what}, got {scores.shape[0]} rows; say how nodes are pooled, "
                "readout=rade.Readout(pool='sum'|'mean'), or pool=None for node-level models"
            )
        if self.is_softmax:
            _refuse_no_classes(scores)
        return scores

    def contrasts(self, scores: Tensor) -> Tensor:
        """Logits without what changes no prediction: for a softmax, their mean over classes."""
        return scores - scores.mean(1, keepdim=True) if self.is_softmax else scores

    def curvature(self, logits: Tensor, rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """w = prob(1−prob), or what ``loss`` has, [k, C] like the logits of these rows.

        generator: for the random signs that a ``loss`` is differentiated with; it is not advanced.
        """
        if self.loss is not None:
            return loss_curvature(self.loss, logits, rows, generator)
        return CURVATURES[self.task](logits)

    def variance(self, sent: LogitMessages, distribution: Distribution, rows: Tensor) -> LogitVariance:
        """Var(δ) of some rows of the logits."""
        if self.pool is None:
            return variance(sent, distribution, rows)
        return pooled_variance(sent, distribution, self.pool == "mean", self.pooling_rule == "exact", rows)

    def doubt(self, logits: Tensor, gradient: Tensor | None, step: int) -> str:
        """What to warn of in a rate step, by the training's logits and its loss's gradient in them; "" for nothing."""
        guessed = self.task == "auto" and self.loss is None and step < FIRST_STEPS
        if guessed and gradient is not None and _is_no_softmax(logits, gradient):
            return (
                "the loss does not treat the model's outputs as class logits (its gradient changes under a common "
                "shift), and the rates adapt as if it did: say what they are, readout=rade.Readout("
                "task='multiclass'|'binary'|'multilabel'|'regression') or Readout(loss=...), or keep the rates, "
                "rule=rade.Constant()"
            )
        # Outputs of a sigmoid stay between 0 and 1, where logits may all lie before training.
        sigmoid = self.task in ("binary", "multilabel") and step == FIRST_STEPS and logits.numel() >= 32
        if sigmoid and bool(((logits >= 0) & (logits <= 1)).all()):
            return (
                "all outputs lie between 0 and 1, as after a sigmoid; rate control takes them for logits: return "
                "logits (binary_cross_entropy_with_logits), or keep the rates, rule=rade.Constant()"
            )
        return ""


def _is_no_softmax(logits: Tensor, gradient: Tensor) -> bool:
    """Whether the gradient of a loss in the logits [k, C] is none of class scores.

    A softmax does not change when all logits of a row shift, so every loss of it has gradients that sum to 0 over
    classes; log-probabilities are seen by their values. Regression, embeddings and sigmoids are neither. Rows that are
    certain of their class, as far as the precision of the logits can tell, are left out: nothing but rounding is left
    of their gradients.
    """
    if gradient.dim() != 2 or len(gradient) == 0 or gradient.shape[1] == 1:  # no classes: `scores` says so
        return False
    rounding = gradient.shape[1] * torch.finfo(logits.dtype).eps
    bound = max(SHIFT_FREE, rounding)
    logits, gradient = logits.detach().double(), gradient.double()
    uncertain = logits.softmax(1).amax(1) < 1.0 - rounding / bound
    size, shift = gradient.abs().sum(1)[uncertain].sum(), gradient.sum(1).abs()[uncertain].sum()
    return bool(logits.logsumexp(1).abs().max() >= bound) and bool(shift > bound * size)


def _refuse_no_classes(scores: Tensor) -> None:
    if scores.shape[1] == 1:
        raise ValueError(
            "one logit per row has no classes to choose from; for two classes pass readout=rade.Readout(task='binary')"
        )
    if not scores.numel() or bool((scores < 0).any()):  # almost always: logits have both signs
        return
    total = scores.detach().double().sum(1)
    if bool(((total - 1.0).abs() < 1e-4).all()):
        raise ValueError(
            "the model's outputs are probabilities (each row sums to 1), but rate control needs logits or their "
            "logarithm: leave the softmax out, or return log_softmax"
        )


def loss_curvature(loss: Loss, logits: Tensor, rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """∂²loss/∂logit² by automatic differentiation, one pass for each column, [k, C].

    With random signs v, v ∘ Hv is the diagonal of H where rows do not share terms, and has it as its mean where they
    do (ranking, pairs): E[v_i Σ_j H_ij v_j] = H_ii. Views go on as if no signs had been drawn.
    """
    device = None if generator is None else generator.device
    with returning(generator):
        signs = 2 * torch.randint(2, (len(logits),), generator=generator, device=device).to(logits) - 1
    with torch.enable_grad():
        x = logits if logits.requires_grad else logits.detach().requires_grad_()
        (slope,) = torch.autograd.grad(loss(x, rows), x, create_graph=True, materialize_grads=True)
        if not slope.requires_grad:
            return torch.zeros_like(logits)  # piecewise linear
        columns = [_second(slope[:, c], signs, x)[:, c] for c in range(x.shape[1])]
        return torch.stack(columns, 1)


def _second(slope: Tensor, signs: Tensor, x: Tensor) -> Tensor:
    """v ∘ ∂⟨v, slope⟩/∂x, [k, C]."""
    (found,) = torch.autograd.grad(slope @ signs, x, create_graph=True, materialize_grads=True)
    return signs[:, None] * found


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a training step's loss was taken over.

    Attributes:
        rows: int64 ids or a bool mask of the logits' rows; all by default.
        known: which labels of those rows are known, broadcastable to [|rows|, C].
        loss: from clean logits to the training loss, for rules with ``data_gradient="clean"``.
        weight: under data-parallel training with uneven parts, the factor by which this process's loss was multiplied
            so that the mean over processes is the loss of the whole batch.
        apart: how the model computes the clean logits of these rows alone, where that is cheaper than all; gradients
            are then taken through them, and everybody else's logits have none.
    """

    rows: Tensor | None = None
    known: Tensor | None = None
    loss: Callable[[Tensor], Tensor] | None = None
    weight: float = 1.0
    apart: Callable[[], Tensor] | None = None

    @staticmethod
    def of(value: object) -> Labelled:
        """The value itself, or one made of its rows alone."""
        if value is None or isinstance(value, Tensor):
            return Labelled(value)
        if not isinstance(value, Labelled):
            kind = type(value).__name__
            raise TypeError(f"labelled must be rows (int64 ids or a bool mask) or a rade.Labelled, got {kind}")
        return value

    def chosen(self, count: int, device: torch.device) -> Tensor:
        """Row ids among ``count`` rows; the same tensor each time, so that what follows from it is recalled."""
        if self.rows is None:
            return torch.arange(count, device=device)
        rows = self.rows
        return _chosen.get((rows,), count, lambda: _checked(rows, count))

    def masked(self, weight: Tensor) -> Tensor:
        """Weights [|rows|, C] of the labelled rows, zero where a label is unknown, times this process's factor."""
        return self.weight * (weight if self.known is None else weight * self.known.to(weight.dtype))


_chosen: Recall[Tensor] = Recall()


def _checked(rows: Tensor, count: int) -> Tensor:
    """Ids or a mask as ids, in memory of their own: what is recalled must not keep that which it is recalled by."""
    if rows.dtype == torch.bool:
        if rows.shape != (count,):
            raise ValueError(f"a boolean mask needs an entry for each of the {count} rows, got {list(rows.shape)}")
        ids = rows.nonzero().squeeze(1)
    elif rows.dtype == torch.long and rows.dim() == 1:
        ids = rows.clone()
    else:
        raise ValueError(
            f"labelled rows must be a vector of int64 ids or a bool mask, got {rows.dtype} {list(rows.shape)}"
        )
    if ids.numel() == 0:
        raise ValueError("labelled must name at least one row: without labels there is nothing to balance")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        raise ValueError(f"labelled rows must lie between 0 and {count - 1}, got {low if low < 0 else high}")
    return ids
