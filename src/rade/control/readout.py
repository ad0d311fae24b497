"""How logits come about and are judged: the task, the pooling, and the variance that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Generator, Tensor
from torch.nn import Module

from rade.control.curvature import Curvature, Loss, of_loss, of_sigmoid, of_softmax, of_square
from rade.control.pooled import pooled_variance
from rade.control.variance import LogitVariance, variance
from rade.errors import choose
from rade.graph.graph import Graph
from rade.moments.base import Sent
from rade.view.law import Law

Task = Literal["auto", "multiclass", "binary", "multilabel", "regression"]
Pool = Literal["sum", "mean"]
PoolingRule = Literal["exact", "paper"]
SOFTMAX = ("auto", "multiclass")
CURVATURES: dict[str, Curvature] = {
    "auto": of_softmax,
    "multiclass": of_softmax,
    "binary": of_sigmoid,
    "multilabel": of_sigmoid,
    "regression": of_square,
}


@dataclass(frozen=True)
class Readout:
    """From the last convolution to the loss: what the regulariser must know of it.

    Attributes:
        task: ``"multiclass"`` (softmax), ``"binary"`` or ``"multilabel"`` (sigmoid), ``"regression"`` (squared error);
            or a function from logits [k, C] to the diagonal of the loss's second derivative, [k, C]. ``"auto"`` is a
            softmax; where the gradient of the loss in the first steps tells otherwise, there is a warning.
        pool: how node features become graph features, ``"sum"`` or ``"mean"``; None at node level.
        pooling_rule: ``"exact"`` variance of a pooled logit, or the ``"paper"``'s sum of node variances.
        head: the linear layer(s) from the last (pooled) convolution to the logits, or their path in the model, where
            they cannot be told.
        loss: any other loss, from logits [k, C] and their row ids [k] to the sum over rows; its second derivative is
            then taken by automatic differentiation, in place of what ``task`` says.
    """

    task: Task | Curvature = "auto"
    pool: Pool | None = None
    pooling_rule: PoolingRule = "exact"
    head: str | Module | None = None
    loss: Loss | None = None

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
        if self.is_softmax:
            _refuse_no_classes(scores)
        return scores

    @property
    def is_softmax(self) -> bool:
        """Whether logits are taken for those of one class among several."""
        return self.task in SOFTMAX and self.loss is None

    @property
    def is_known(self) -> bool:
        """Whether the curvature is one of ours rather than a user's own."""
        return self.loss is None and not callable(self.task)

    @property
    def is_flat(self) -> bool:
        """Whether the curvature is constant, so that R has a gradient in the parameters by way of Var(δ) alone."""
        return self.task == "regression" and self.loss is None

    def contrasts(self, scores: Tensor) -> Tensor:
        """Logits without what changes no prediction: for a softmax, their mean over classes."""
        return scores - scores.mean(1, keepdim=True) if self.is_softmax else scores

    def curvature(self, logits: Tensor, rows: Tensor, generator: Generator | None = None) -> Tensor:
        """w = prob(1−prob), or what ``task`` or ``loss`` has, [k, C] like the logits of these rows.

        generator: for the random signs that a ``loss`` is differentiated with; it is not advanced.
        """
        if self.loss is not None:
            return of_loss(self.loss, logits, rows, generator)
        return self.task(logits) if callable(self.task) else CURVATURES[self.task](logits)

    def variance(self, sent: Sent, law: Law, rows: Tensor) -> LogitVariance:
        """Var(δ) of some rows of the logits."""
        if self.pool is None:
            return variance(sent, law, rows)
        return pooled_variance(sent, law, self.pool == "mean", self.pooling_rule == "exact", rows)


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
