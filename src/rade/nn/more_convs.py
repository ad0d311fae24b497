"""The other layers with moments: PyG's own forward, coefficients for its sums, and the map that follows the last."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.graph import Graph
from rade.moments.base import Coefficients
from rade.moments.normalised import Normalised
from rade.nn.base import CorrectedConv, LayerViews, own_linear
from rade.nn.context import Arguments
from rade.nn.convs import SUMS, by_aggregation, weights_have_moments
from rade.nn.edge_values import attributes_in_order, imputed, in_order, symmetric, weighted
from rade.nn.linear import as_sparse, dense, linear, linear_of_sums, linear_part, pushed, weight_of
from rade.nn.pairs import without_cache
from rade.sums import Messages, along_edges


class _Symmetric(CorrectedConv):
    """A layer whose every step is Σ_j e_ij x_j/√(d_i d_j)."""

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None, **_: object) -> Coefficients:
        """With the layer's own self-loops; plain sums for ``normalize=False``."""
        loop, normalises = float(self._option("add_self_loops", False)), bool(self._option("normalize", True))
        return symmetric(graph, x, edge_weight, loop, normalises, self.added_weight)

    moments_on = weights_have_moments

    def against_moments(self) -> str:
        return "dropout of its edge weights comes on top" if self._option("dropout", 0.0) else super().against_moments()

    def on(self, *args: Any, **given: Any) -> Any:
        """Without the layer's cache, which would keep a view, or hide it."""
        with without_cache(self):
            return super().on(**given)


def _unit(width: int, like: Tensor) -> Tensor:
    return torch.eye(width, dtype=like.dtype, device=like.device)


class SGConv(_Symmetric, pyg.SGConv):
    """PyG's SGConv: K propagation steps and one linear map; every step is corrected."""

    def on(self, x: Tensor, edge_index: LayerViews, edge_weight: Tensor | None = None) -> Tensor:
        """The linear map comes first: it commutes with the steps and makes them narrower."""
        coefficients = self.coefficients(edge_index.graph, x, edge_weight)

        def sums(h: Tensor, follows: bool) -> Tensor:
            def after(head: Tensor | None) -> Tensor | None:
                return linear_part(head, self.lin) if follows else head

            for _ in range(self.K):
                h = self.send(edge_index, coefficients, h, after)
            return h

        return linear_of_sums(self.lin, as_sparse(x), sums, sums_first=False)


class LGConv(_Symmetric, pyg.LGConv):
    """PyG's LGConv, Σ_j x_j/√(d_i d_j), corrected on views: the layer of LightGCN."""


class APPNP(_Symmetric, pyg.APPNP):
    """PyG's APPNP, x ← (1−α) Â x + α h, K times; every step is corrected."""

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        return float(1.0 - self.alpha) * (torch.eye(width) if head is None else head)


class TAGConv(_Symmetric, pyg.TAGConv):
    """PyG's TAGConv, Σ_k Â^k x W_k; every hop is corrected."""

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        return pushed(head, weight_of(self.lins[-1]))


class MixHopConv(_Symmetric, pyg.MixHopConv):
    """PyG's MixHopConv, Â^k x W_k side by side; every hop is corrected."""

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        """To the columns of the last power."""
        out, last, weight = self.out_channels, self.powers.index(max(self.powers)), weight_of(self.lins[-1])
        head = _unit(out * len(self.powers), weight) if head is None else head
        found: Tensor = head[:, out * last : out * (last + 1)] @ weight
        return found


class SSGConv(_Symmetric, pyg.SSGConv):
    """PyG's SSGConv, W (α x + (1−α)/K Σ_k Â^k x); every hop is corrected."""

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        return float((1.0 - self.alpha) / self.K) * pushed(head, weight_of(self.lin))


class ARMAConv(_Symmetric, pyg.ARMAConv):
    """PyG's ARMAConv, mean over stacks of σ(Â x W + x₀ V), several times; every step is corrected."""

    def against_moments(self) -> str:
        return CorrectedConv.against_moments(self)  # its dropout is of features

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        """All stacks reach the logits alike, as columns that are averaged."""
        unit = _unit(width // self.num_stacks, self.init_weight)
        mean: Tensor = unit.repeat(1, self.num_stacks) / self.num_stacks
        return mean if head is None else head @ mean


class GCN2Conv(_Symmetric, pyg.GCN2Conv):
    """PyG's GCN2Conv, ((1−α) Â x + α x₀)((1−β) + β W), corrected on views."""

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        unit = _unit(self.channels, self.weight1)
        mapped = torch.addmm(unit, unit, self.weight1, beta=1.0 - self.beta, alpha=self.beta).t()
        return float(1.0 - self.alpha) * pushed(head, mapped)


class _Summed(CorrectedConv):
    """A layer whose every step is a sum or a mean, with or without edge weights."""

    aggregations = SUMS

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None, **_: object) -> Coefficients:
        return weighted(by_aggregation(self, graph, x.dtype), edge_weight, self.added_weight)


class GatedGraphConv(_Summed, pyg.GatedGraphConv):
    """PyG's GatedGraphConv: sums (or means) of x W_k into a gated unit, several times; every step is corrected."""

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        """A gated unit has no linear part."""
        raise ValueError(
            "cannot push messages through the gated unit of GatedGraphConv: rates that follow a regulariser need a "
            "linear map; use rule=rade.NoiseRatio() or rule=rade.Constant()"
        )


class SimpleConv(_Summed, pyg.SimpleConv):
    """PyG's SimpleConv: sums or means without parameters, corrected on views."""

    def against_moments(self) -> str:
        loops = self.combine_root == "self_loop"
        return "a self-loop that counts like an edge has none" if loops else super().against_moments()

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        """Of concatenated features the sum is the second half."""
        return head if head is None or self.combine_root != "cat" else head[:, -width:]


class ClusterGCNConv(CorrectedConv, pyg.ClusterGCNConv):
    """PyG's ClusterGCNConv, W (Σ_j x_j + (1+λ) x_i)/(d_i + 1) + W' x_i, corrected on views."""

    def against_moments(self) -> str:
        """Its own part needs a loop at every node."""
        return super().against_moments() if self.add_self_loops else "add_self_loops=False has none"

    def on(self, x: Tensor, edge_index: LayerViews) -> Tensor:
        coefficients = Normalised.mean_of(edge_index.graph, x.dtype, loop=1.0, gain=1.0 + self.diag_lambda)
        out = self.send_through(self.lin_out, edge_index, coefficients, x)
        return out + own_linear(self.lin_root, edge_index, x)


class ChebConv(CorrectedConv, pyg.ChebConv):
    """PyG's ChebConv with symmetric normalisation and λ_max = 2, Σ_k T_k(−Â) x W_k; every step is corrected."""

    def against_moments(self) -> str:
        """With any other normalisation λ_max depends on the graph, so its coefficients have no moments."""
        other = self.normalization != "sym"
        return f"normalization={self.normalization!r} has none" if other else super().against_moments()

    def moments_on(self, graph: Graph, given: Arguments) -> bool:
        """Its Laplacian must be symmetric, without loops, and λ_max the 2 that holds for any graph."""
        if given.get("lambda_max") is not None or graph.directed or not weights_have_moments(self, graph, given):
            return False
        weight = None if given.get("edge_weight") is None else in_order(graph, given["edge_weight"])
        return weight is None or torch.equal(weight, weight[graph.pattern.transposition])

    @property
    def uses_self_loops(self) -> bool:
        return False  # the Laplacian leaves them out

    def on(self, x: Tensor, edge_index: LayerViews, edge_weight: Tensor | None = None, **_: object) -> Tensor:
        coefficients = symmetric(edge_index.graph, x, edge_weight, 0.0, added=self.added_weight)
        before = now = dense(x)
        out = linear(self.lins[0], now)
        for step, lin in enumerate(self.lins[1:]):
            factor = -1.0 if step == 0 else -2.0
            sums = self.send(edge_index, coefficients, now, partial(self._after, factor, lin))
            before, now = now, factor * sums - (before if step > 0 else 0.0)
            out = out + linear(lin, now)
        return out if self.bias is None else out + self.bias

    def _after(self, factor: float, lin: Any, head: Tensor | None) -> Tensor:
        return factor * pushed(head, weight_of(lin))


class GINEConv(CorrectedConv, pyg.GINEConv):
    """PyG's GINEConv, nn((1+ε) x_i + Σ_j ReLU(x_j + e_ij)), corrected on views.

    Added edges have an imputed attribute, ``added_attr``: by default the mean over the edges of the graph.
    """

    def on(self, x: Tensor, edge_index: LayerViews, edge_attr: Tensor | None = None, size: object = None) -> Tensor:
        x, graph = dense(x), edge_index.graph
        attributes = attributes_in_order(graph, edge_attr, type(self).__name__)
        others = imputed(graph, attributes, self.added_attr)
        if self.lin is not None:
            attributes, others = self.lin(attributes), self.lin(others)
        if attributes.shape[1] != x.shape[1]:
            raise ValueError(
                f"{type(self).__name__} adds edge_attr to features: expected {x.shape[1]} columns, got "
                f"{attributes.shape[1]}; set edge_dim={attributes.shape[1]}"
            )
        messages = Messages((x + others).relu(), (along_edges(x, graph.pattern) + attributes).relu())
        coefficients = Normalised.sum(graph, x.dtype)
        sums = self.send(edge_index, coefficients, messages, lambda head: linear_part(head, self.nn))
        return cast(Tensor, self.nn(sums + (1 + self.eps) * edge_index.own(x)))
