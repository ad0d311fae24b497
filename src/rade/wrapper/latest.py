"""The last training call of a model: its arguments, its logits, and which rows of them the loss reached."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rade.control.labelled import Labelled
from rade.graph.graph import Graph
from rade.graph.nodes import nodes_of
from rade.wrapper.call import Call


class Latest:
    """What `RADE.adapt` and `RADE.follow` know of the training step that has just been."""

    def __init__(self, call: Call, graph: Graph, output: Any) -> None:
        self.call, self.graph = call, graph
        self.logits = output.detach() if isinstance(output, Tensor) else None
        self._reached: Tensor | None = None
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(self._reach)  # type: ignore[no-untyped-call]

    def _reach(self, gradient: Tensor) -> None:
        """Rows that received a gradient, over all backward passes."""
        reached = (gradient != 0).reshape(len(gradient), -1).any(1)
        self._reached = reached if self._reached is None else self._reached | reached

    @property
    def labelled(self) -> Labelled:
        """The rows that the loss was taken over."""
        if self._reached is None or not bool(self._reached.any()):
            raise RuntimeError(
                "the last training call received no gradient: adapt() without arguments needs loss.backward() first, "
                "on a loss of what the model returned"
            )
        return Labelled(self._reached.nonzero().squeeze(1))

    def rows(self, graph: Graph, rows: Tensor) -> Tensor:
        """The training logits of some nodes (or graphs), [k, C]; ``graph`` is the one that they must be of."""
        if self.logits is None or self.graph is not graph:
            raise RuntimeError(
                "this rule compares with the logits of the last training call: call adapt() with the arguments of that "
                "call, on a model that returns its logits"
            )
        scores = self.logits if self.logits.dim() == 2 else self.logits[:, None]
        asked = self.call.rows
        return torch.index_select(scores, 0, rows if asked is None else nodes_of(asked, graph.num_nodes).position[rows])
