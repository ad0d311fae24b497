"""The main layers, written out where the order of map and sum, and sparse features, are the speed."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import Any, ClassVar, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from rade.graph.graph import Graph
from rade.graph.sparse import is_sparse
from rade.moments.attention.attention import Attention
from rade.moments.attention.scores import NOTHING
from rade.moments.base import Coefficients
from rade.moments.normalised import Normalised
from rade.nn.base import CorrectedConv, LayerViews, own_linear, sums_first
from rade.nn.context import Arguments
from rade.nn.edge_values import against_fill, has_positive_weights, symmetric, weighted, with_loops
from rade.nn.linear import as_sparse, dense, has_hooks, is_plain, linear, linear_part, weight_of

SUMS = (SumAggregation, MeanAggregation)


def by_aggregation(conv: Any, graph: Graph, dtype: torch.dtype) -> Normalised:
    """A sum or a mean, as PyG's layer was built."""
    make = Normalised.mean_of if isinstance(conv.aggr_module, MeanAggregation) else Normalised.sum
    return make(graph, dtype)


def weights_have_moments(conv: Any, graph: Graph, given: Arguments) -> bool:
    """Whether edge weights, if they came, may be normalised by random degrees."""
    weight = given.get("edge_weight")
    return weight is None or not conv.__dict__.get("normalize", True) or has_positive_weights(graph, weight)


class GCNConv(CorrectedConv, pyg.GCNConv):
    """PyG's GCNConv, a_i = Σ_j m_j/√(d_i d_j) with m = Θx, corrected on views (Eq. 6, 10; Appendix C.II)."""

    def on(self, x: Tensor, edge_index: LayerViews, edge_weight: Tensor | None = None) -> Tensor:
        x, layer = as_sparse(x), self.lin
        coefficients = self.coefficients(edge_index.graph, x, edge_weight)
        if layer.bias is None and sums_first(edge_index, x, layer):
            out = linear(layer, self.send(edge_index, coefficients, x, lambda head: linear_part(head, layer)))
        else:
            out = self.send(edge_index, coefficients, linear(layer, x), lambda head: head)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None, **_: object) -> Coefficients:
        """e_ij/√(d_i d_j), or plain sums for ``normalize=False``."""
        loop = 1.0 if self.add_self_loops else 0.0
        if self.improved and loop:  # with edge weights such loops weigh 2 as documented
            loop = improved_loop() if edge_weight is None else 2.0
        if self.normalize and edge_weight is None:
            return Normalised.symmetric(graph, x.dtype, loop)
        return symmetric(graph, x, edge_weight, loop, self.normalize, self.added_weight)

    moments_on = weights_have_moments


@lru_cache(maxsize=1)
def improved_loop() -> float:
    """The self-loop weight of ``improved=True`` in the installed PyG, read off a single edge.

    Documented is 2, but without edge weights PyG 2.8.1 adds loops of weight 1; a wrapped model must agree with it.
    """
    edge = torch.tensor([[0, 1], [1, 0]])
    index, weight = gcn_norm(edge, None, 2, improved=True)
    share = float(weight[index[0] == index[1]][0])
    return float(round(share / (1.0 - share)))  # loops weigh 1 or 2, read in single precision


class GINConv(CorrectedConv, pyg.GINConv):
    """PyG's GINConv, nn((1+ε) x_i + Σ_j x_j), corrected on views (Appendix C.I)."""

    def on(self, x: Tensor, edge_index: LayerViews, size: object = None) -> Tensor:
        x = as_sparse(x)
        coefficients = Normalised.sum(edge_index.graph, x.dtype)
        first, rest = self._split(x)
        if first is None or sums_first(edge_index, x, first):
            return cast(Tensor, self.nn(self._with_own(edge_index, coefficients, dense(x), self.nn)))
        # The first linear layer commutes with the sum; applied before it, messages are narrower.
        out = self._with_own(edge_index, coefficients, linear(first, x, bias=False), rest)
        return cast(Tensor, rest(out if first.bias is None else out + first.bias))

    def _with_own(self, views: LayerViews, coefficients: Coefficients, x: Tensor, rest: Any) -> Tensor:
        """(1+ε) x_i + Σ_j x_j; a constant ε is one more weight of the sum."""
        own, after = 1 + self.eps, lambda head: linear_part(head, rest)
        if views.linear and not own.requires_grad:
            return self.send(views, coefficients, x, after, own)
        return torch.addcmul(self.send(views, coefficients, x, after), own, views.own(x))

    def _split(self, x: Tensor) -> tuple[Any, Any]:
        """The leading linear layer, if it pays to apply it before the sum, and the layers after it."""
        module: Any = self.nn
        # Of a chain nothing else is called than its parts in order: a subclass may do more, and hooks do.
        known = type(module) in (torch.nn.Sequential, pyg.MLP)
        is_chain = known and "forward" not in vars(module) and not has_hooks(module)
        is_mlp = is_chain and isinstance(module, pyg.MLP)
        layers: Any = module.lins if is_mlp else module if is_chain else [module]
        first = layers[0] if len(layers) else None
        if not isinstance(first, torch.nn.Linear | pyg.Linear) or not is_plain(first):
            return None, module
        outputs, inputs = first.weight.shape
        if not is_sparse(x) and outputs >= inputs:
            return None, module
        if is_mlp:
            return first, _without_first(module)
        return first, module[1:] if len(layers) > 1 else torch.nn.Identity()


def _without_first(module: pyg.MLP) -> pyg.MLP:
    """The same layers but for the first linear one."""
    rest = copy(module)
    rest._modules = {**module._modules, "lins": torch.nn.ModuleList([torch.nn.Identity(), *module.lins[1:]])}
    return rest


class SAGEConv(CorrectedConv, pyg.SAGEConv):
    """PyG's SAGEConv with mean or sum, W_l · agg_j x_j + W_r x_i, corrected on views."""

    aggregations = SUMS

    @property
    def nonlinear(self) -> str:
        return "normalize=True" if self.normalize else ""

    def on(self, x: Tensor, edge_index: LayerViews, size: object = None) -> Tensor:
        x = as_sparse(x)
        sent = linear(self.lin, x).relu() if self.project else x
        out = self.send_through(self.lin_l, edge_index, by_aggregation(self, edge_index.graph, x.dtype), sent)
        if self.root_weight:
            out = out + own_linear(self.lin_r, edge_index, x)
        return torch.nn.functional.normalize(out, p=2.0, dim=-1) if self.normalize else out


class GraphConv(CorrectedConv, pyg.GraphConv):
    """PyG's GraphConv, W_1 · agg_j e_ij x_j + W_2 x_i; corrected on views."""

    aggregations = SUMS

    def on(self, x: Tensor, edge_index: LayerViews, edge_weight: Tensor | None = None, size: object = None) -> Tensor:
        x = as_sparse(x)
        coefficients = weighted(by_aggregation(self, edge_index.graph, x.dtype), edge_weight, self.added_weight)
        return self.send_through(self.lin_rel, edge_index, coefficients, x) + own_linear(self.lin_root, edge_index, x)


class GATConv(CorrectedConv, pyg.GATConv):
    """PyG's GATConv, multi-head, with or without self-loops, corrected on views (Appendix C.III).

    With ``edge_attr``, added edges have an imputed one, ``added_attr``, and loops that of the clean graph.
    """

    scores: ClassVar[bool] = True

    def against_moments(self) -> str:
        falling = "weights fall where scores grow" if self.negative_slope < 0 else ""
        return falling or against_fill(self) or super().against_moments()

    def on(
        self, x: Tensor, edge_index: LayerViews, edge_attr: Tensor | None = None, size: object = None, **_: object
    ) -> Tensor:
        x = as_sparse(x)
        out = self._attended(x, edge_index, edge_attr)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out if self.res is None else out + own_linear(self.res, edge_index, x)
        return out if self.bias is None else out + self.bias

    def _attended(self, x: Tensor, views: LayerViews, edge_attr: Tensor | None) -> Tensor:
        """[k, H, F_out]: Θx is formed for everybody, or for few rows from sums of x itself."""
        sources, targets = (self.lin_src, self.lin_dst) if self.lin is None else (self.lin, self.lin)
        if self.heads == 1 and self.lin is not None and sums_first(views, x, self.lin) and self.lin.bias is None:
            weight, att = weight_of(self.lin), torch.cat([self.att_src, self.att_dst]).squeeze(1)
            s, t = torch.split(x @ (att @ weight).t(), 1, dim=1)
            coefficients = self._attention(views.graph, s, t, edge_attr)
            sums = self.send(views, coefficients, x[:, None], lambda head: head_by_head(self, head, x) @ weight)
            return linear(self.lin, sums.flatten(0, 1))[:, None]
        h = linear(sources, x).view(-1, self.heads, self.out_channels)
        to = h if targets is sources else linear(targets, x).view(h.shape)
        s, t = (h * self.att_src).sum(-1), (to * self.att_dst).sum(-1)
        coefficients = self._attention(views.graph, s, t, edge_attr)
        return self.send(views, coefficients, h, lambda head: head_by_head(self, head, x))

    def _attention(self, graph: Graph, s: Tensor, t: Tensor, edge_attr: Tensor | None) -> Coefficients:
        extra = NOTHING
        if edge_attr is not None and self.lin_edge is not None:  # without edge_dim PyG passes attributes over
            edge_attr = edge_attr.to(s.dtype)  # PyG joins loops to them, which makes numbers of categories, too
            extra = with_loops(graph, edge_attr, "GATConv", self.added_attr, self.fill_value, self._edge_term)
        drop = self.dropout if self.training else 0.0
        return Attention(graph, s, t, self.negative_slope, self.add_self_loops, drop, extra)

    def _edge_term(self, attributes: Tensor) -> Tensor:
        """What attributes [·, D] add to scores, [·, H]."""
        features: Tensor = self.lin_edge(attributes).view(-1, self.heads, self.out_channels)
        weights: Tensor = self.att_edge
        return (features * weights).sum(-1)


def head_by_head(conv: Any, head: Tensor | None, x: Tensor) -> Tensor:
    """What the linear head [C, ·] does to each attention head of a layer, [H, C, F_out]."""
    if head is None:
        head = torch.eye(conv.out_channels * (conv.heads if conv.concat else 1), dtype=x.dtype, device=x.device)
    if not conv.concat:
        return head.expand(int(conv.heads), -1, -1) / float(conv.heads)
    return head.view(len(head), conv.heads, conv.out_channels).transpose(0, 1)
