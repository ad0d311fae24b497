"""ARMAConv: stacks of symmetric steps with skip connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import dropout

from rade.correction import propagate
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sent
from rade.nn.base import CorrectedConv
from rade.nn.hops import symmetric
from rade.nn.linear import dense


class ARMAConv(CorrectedConv, pyg.ARMAConv):
    """PyG's ARMAConv, mean over stacks of σ(Â x W + x₀ V), several times; every step is corrected."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → [n, F_out]."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        coefficients = self.coefficients(edge_index.graph, x, edge_weight)
        return self._run(dense(x), lambda messages, step: self.send(edge_index, coefficients, messages, step)).mean(0)

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j) without self-loops."""
        return symmetric(graph, x, edge_weight, 0.0, added=self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last step sends; all stacks reach the logits alike, so their messages add up."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        seen: list[Tensor] = []

        def send(messages: Tensor, step: int) -> Tensor:
            seen.append(messages)
            return propagate(graph, coefficients, messages)

        self._run(dense(x), send)
        messages = _stacks(seen[-1], self.num_stacks).mean(0)
        return Sent(coefficients, messages if head is None else messages @ head.t())

    def _run(self, x: Tensor, send: Callable[[Tensor, int], Tensor]) -> Tensor:
        """The output of every stack, [K, n, F_out]; stacks travel side by side, as columns."""
        out = x.expand(self.num_stacks, -1, -1)
        for step in range(self.num_layers):
            at, before = (0, 0) if self.shared_weights else (step, step - 1)
            out = out @ (self.init_weight if step == 0 else self.weight[before])
            out = _stacks(send(out.transpose(0, 1).flatten(1), step), self.num_stacks)
            out = out + dropout(x, self.dropout, self.training) @ self.root_weight[at]
            out = out if self.bias is None else out + self.bias[at]
            out = out if self.act is None else self.act(out)
        return out


def _stacks(x: Tensor, count: int) -> Tensor:
    """[n, K · F] → [K, n, F]."""
    return torch.stack(x.chunk(count, 1))
