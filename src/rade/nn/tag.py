"""TAGConv, MixHopConv, SSGConv and ChebConv: several hops of symmetric aggregation, each with its own linear map."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sent
from rade.nn.base import CorrectedConv, pushed
from rade.nn.hops import clean_hops, hops, symmetric
from rade.nn.linear import dense, linear, matmul
from rade.nn.plain import weight_of
from rade.nn.weights import in_order


class TAGConv(CorrectedConv, pyg.TAGConv):
    """PyG's TAGConv, Σ_k Â^k x W_k; every hop is corrected."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → [n, F_out]."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        found = hops(self, edge_index, self.coefficients(edge_index.graph, x, edge_weight), dense(x), self.K)
        out = torch.stack([linear(lin, hop) for lin, hop in zip(self.lins, found)]).sum(0)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j) without self-loops, or plain sums for ``normalize=False``."""
        return symmetric(graph, x, edge_weight, 0.0, self.normalize, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last hop sends."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        messages = matmul(x, pushed(head, weight_of(self.lins[-1])))
        return Sent(coefficients, clean_hops(graph, coefficients, messages, self.K - 1))


class MixHopConv(CorrectedConv, pyg.MixHopConv):
    """PyG's MixHopConv, Â^k x W_k side by side; every hop is corrected."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → [n, powers · F_out]."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        found = hops(self, edge_index, self.coefficients(edge_index.graph, x, edge_weight), dense(x), max(self.powers))
        out = torch.cat([linear(self.lins[power], found[power]) for power in self.powers], dim=-1)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j)."""
        return symmetric(graph, x, edge_weight, float(self.add_self_loops), added=self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last hop sends, to the columns of its power."""
        coefficients, width = self.coefficients(graph, x, inputs.get("edge_weight")), self.out_channels
        head = torch.eye(width * len(self.powers), dtype=x.dtype, device=x.device) if head is None else head
        last = self.powers.index(max(self.powers))
        messages = matmul(x, head[:, width * last : width * (last + 1)] @ weight_of(self.lins[max(self.powers)]))
        return Sent(coefficients, clean_hops(graph, coefficients, messages, max(self.powers) - 1))


class SSGConv(CorrectedConv, pyg.SSGConv):
    """PyG's SSGConv, W (α x + (1−α)/K Σ_k Â^k x); every hop is corrected."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → [n, F_out]."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        first, *found = hops(self, edge_index, self.coefficients(edge_index.graph, x, edge_weight), dense(x), self.K)
        return linear(self.lin, self.alpha * first + (1.0 - self.alpha) / self.K * torch.stack(found).sum(0))

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j)."""
        return symmetric(graph, x, edge_weight, float(self.add_self_loops), added=self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last hop sends."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        messages = (1.0 - self.alpha) / self.K * matmul(x, pushed(head, weight_of(self.lin)))
        return Sent(coefficients, clean_hops(graph, coefficients, messages, self.K - 1))


class ChebConv(CorrectedConv, pyg.ChebConv):
    """PyG's ChebConv with the symmetric Laplacian and λ_max = 2, where 2L/λ_max − 1 = −Â; every step is corrected."""

    @property
    def sees_self_loops(self) -> bool:
        """Its Laplacian leaves them out."""
        return False

    def check_options(self) -> None:
        """The Laplacian that is symmetric aggregation."""
        super().check_options()
        self.refuse("normalization", self._option("normalization"), ("sym",))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Adjacency,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        lambda_max: Any = None,
    ) -> Tensor:
        """x [n, F_in] → [n, F_out]."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight, batch, lambda_max))
        if lambda_max is not None and bool((torch.as_tensor(lambda_max) != 2.0).any()):
            raise ValueError("ChebConv on a Graph or View has lambda_max = 2, the bound for every graph; leave it out")
        coefficients = self.coefficients(edge_index.graph, x, edge_weight)
        before, now = dense(x), dense(x)
        out = linear(self.lins[0], before)
        for step, lin in enumerate(self.lins[1:]):
            sums = self.send(edge_index, coefficients, now, step)
            before, now = now, -sums if step == 0 else -2.0 * sums - before
            out = out + linear(lin, now)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j) without self-loops."""
        if graph.directed:
            raise ValueError(
                "ChebConv has a symmetric Laplacian, which a directed graph has not (PyG divides by out-degrees); "
                "make the graph undirected (torch_geometric.utils.to_undirected), or take TAGConv"
            )
        if edge_weight is not None:
            weight = in_order(graph, edge_weight)
            if not torch.equal(weight, weight[graph.pattern.transposition]):
                raise ValueError(
                    "ChebConv takes edge_weight on a Graph or View only if both directions of every edge weigh the "
                    "same: its Laplacian is symmetric; average them (to_undirected(..., reduce='mean'))"
                )
        return symmetric(graph, x, edge_weight, 0.0, added=self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last step sends: −1 or −2 times a polynomial of the clean aggregation."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        before = now = matmul(x, pushed(head, weight_of(self.lins[-1])))
        for step in range(len(self.lins) - 2):
            sums = clean_hops(graph, coefficients, now, 1)
            before, now = now, -sums if step == 0 else -2.0 * sums - before
        factor = {1: 0.0, 2: -1.0}.get(len(self.lins), -2.0)  # K = 1 aggregates nothing
        return Sent(coefficients, factor * now)
