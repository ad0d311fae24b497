"""How logits come about and are judged: the task, the pooling, and the variance that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor
from torch.nn import Module

from rade.control.variance import LogitVariance, pooled_variance, variance
from rade.errors import choose
from rade.graph.graph import Graph
from rade.moments.base import Sent
from rade.view.law import Law

Task = Literal["multiclass", "binary", "multilabel"]
Pool = Literal["sum", "mean"]
PoolingRule = Literal["exact", "paper"]
Curvature = Callable[[Tensor], Tensor]


def _softmax_curvature(logits: Tensor) -> Tensor:
    probability = logits.softmax(-1)
    return probability * (1.0 - probability)


def _sigmoid_curvature(logits: Tensor) -> Tensor:
    probability = logits.sigmoid()
    return probability * (1.0 - probability)


CURVATURES: dict[str, Curvature] = {
    "multiclass": _softmax_curvature,
    "binary": _sigmoid_curvature,
    "multilabel": _sigmoid_curvature,
}


@dataclass(frozen=True)
class Readout:
    """From the last convolution to the loss: what the regulariser must know of it.

    Attributes:
        task: ``"multiclass"`` (softmax), ``"binary"`` or ``"multilabel"`` (sigmoid); or a function from logits [k, C]
            to the diagonal of the loss's second derivative, [k, C].
        pool: how node features become graph features, ``"sum"`` or ``"mean"``; None at node level.
        pooling_rule: ``"exact"`` variance of a pooled logit, or the ``"paper"``'s sum of node variances.
        head: the linear layer(s) from the last (pooled) convolution to the logits, or their path in the model, where
            they cannot be told.
    """

    task: Task | Curvature = "multiclass"
    pool: Pool | None = None
    pooling_rule: PoolingRule = "exact"
    head: str | Module | None = None

    def __post_init__(self) -> None:
        if not callable(self.task):
            choose("task", self.task, get_args(Task))
        if self.pool is not None:
            choose("pool", self.pool, get_args(Pool))  # PyG's global_add_pool is a sum
        choose("pooling_rule", self.pooling_rule, get_args(PoolingRule))

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
        if self.task == "multiclass" and scores.shape[1] == 1:
            raise ValueError(
                "one logit per row has no classes to choose from; for two classes pass "
                "readout=rade.Readout(task='binary')"
            )
        return scores

    def contrasts(self, scores: Tensor) -> Tensor:
        """Logits without what changes no prediction: for a softmax, their mean over classes."""
        return scores - scores.mean(1, keepdim=True) if self.task == "multiclass" else scores

    def curvature(self, logits: Tensor) -> Tensor:
        """w = prob(1−prob), or what ``task`` computes, [k, C] like the logits."""
        return self.task(logits) if callable(self.task) else CURVATURES[self.task](logits)

    def variance(self, sent: Sent, law: Law, rows: Tensor) -> LogitVariance:
        """Var(δ) of some rows of the logits."""
        if self.pool is None:
            return variance(sent, law, rows)
        return pooled_variance(sent, law, self.pool == "mean", self.pooling_rule == "exact", rows)
