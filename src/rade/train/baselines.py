"""The baselines of the paper: Dropout, DropEdge, DropNode, DropMessage, and a virtual node.

A new one is a `Method` here and a line in `METHODS` (`rade.train.methods`); one of your own is named `module:object`
and needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rade import RADE, Constant, Graph, Variant, Views
from rade.correction import Adjacency
from rade.moments import Coefficients
from rade.nn import GINConv
from rade.nn.linear import linear
from rade.sums import Messages
from rade.train.backbones import Backbone
from rade.train.learner import Context, Method

# Below this share of non-zeros, messages are thinned entry by entry: input features of GIN are wide and mostly zero.
SPARSE_BELOW = 0.1


@dataclass(frozen=True)
class Plain(Method):
    """Train on the clean graph."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model as it is."""
        return net


@dataclass(frozen=True)
class Dropping(Method):
    """Something is left out with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:  # at 1 nothing is left to scale up
            raise ValueError(f"the drop rate must lie in [0, 1), got {self.rate}")


def backbone(net: nn.Module, method: Method) -> Backbone:
    """The model as one of our backbones; refused where it is none."""
    if not isinstance(net, Backbone):
        raise ValueError(
            f"{type(method).__name__} is for rade's own backbones, whose places it needs; build it into your model, "
            "and pass a function from your model to that one instead of the name"
        )
    return net


@dataclass(frozen=True)
class DropEdge(Dropping):
    """Rong et al. (2020): train on a random subgraph, renormalised and uncorrected."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model on random subgraphs, one for all layers."""
        rates = Constant(self.rate, 0.0)
        return RADE(net, Variant.NONE, rule=rates, views=Views(shared=True), generator=context.generator)


def thin(values: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero each element with probability `rate` and scale the others by 1/(1 − rate)."""
    # Uniform numbers compared in place: four times as fast as `bernoulli_` on a CPU.
    kept = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=values.device).ge_(rate)
    return values * kept.div_(1 - rate)


class Thinning(nn.Module):
    """A place of a backbone where something random happens in training."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator


class FeatureDropout(Thinning):
    """Element-wise dropout that draws from an explicit generator."""

    def forward(self, x: Tensor) -> Tensor:
        """Thin x in training, return it in evaluation."""
        return thin(x, self.rate, self.generator) if self.training else x


@dataclass(frozen=True)
class Dropout(Dropping):
    """Srivastava et al. (2014): zero hidden features, behind every activation."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        net = backbone(net, self)
        net.after = FeatureDropout(self.rate, context.generator)
        return net


class RowDropout(Thinning):
    """Zeroes each row with probability `rate` and scales the others by 1/(1 − rate), in training."""

    def forward(self, x: Tensor) -> Tensor:
        """A fresh set of rows at every training step; x: [n, F] dense or sparse CSR."""
        if not self.training:
            return x
        factor = thin(torch.ones(x.size(0), device=x.device), self.rate, self.generator)
        if x.layout is torch.strided:
            return x * factor.unsqueeze(1)
        crow = x.crow_indices()
        values = x.values() * factor.repeat_interleave(crow.diff())
        return torch.sparse_csr_tensor(crow, x.col_indices(), values, x.shape, check_invariants=False)


@dataclass(frozen=True)
class DropNode(Dropping):
    """Feng et al. (2020): zero the features of whole nodes, once they are encoded: categories cannot be scaled."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        net = backbone(net, self)
        net.before = RowDropout(self.rate, context.generator)
        return net


@dataclass(frozen=True, eq=False)
class ThinnedMessages(Adjacency):
    """An adjacency whose messages each lose elements at random: Σ_j dropout(α_ij m_j) + dropout(α_ii m_i)."""

    linear: ClassVar[bool] = False  # a map of the sum is none of what was thinned
    rate: float = 0.5
    generator: torch.Generator | None = None

    def aggregate(
        self, coefficients: Coefficients, messages: Tensor | Messages, own: Tensor | None = None
    ) -> Tensor:
        """messages: [n, F] or [n, H, F]; fresh draws on every call."""
        assert isinstance(messages, Tensor)
        assert own is None, "a layer adds its own messages itself where the sum is not linear"
        weights = coefficients.realised(coefficients.clean())
        own = thin(weights.loop.unsqueeze(-1) * messages, self.rate, self.generator)
        if not messages.requires_grad and messages.count_nonzero() < SPARSE_BELOW * messages.numel():
            return self.own(own + _receive_entries(self, weights.edges, messages))
        sent = weights.edges.unsqueeze(-1) * messages[self.graph.pattern.source]
        return self.own(own + self.graph.pattern.row_sum(thin(sent, self.rate, self.generator)))


def _receive_entries(adjacency: ThinnedMessages, weights: Tensor, messages: Tensor) -> Tensor:
    """The same sum over edges, for messages [n, F] of which only the non-zero entries travel."""
    pattern = adjacency.graph.pattern
    node, column = messages.nonzero(as_tuple=True)
    count = torch.bincount(node, minlength=len(messages))
    first = count.cumsum(0) - count
    edge = torch.repeat_interleave(count[pattern.source])  # [entries sent] the edge of each
    start = count[pattern.source].cumsum(0) - count[pattern.source]
    entry = torch.arange(len(edge), device=edge.device) - start[edge] + first[pattern.source[edge]]
    values = thin(weights[edge] * messages[node[entry], column[entry]], adjacency.rate, adjacency.generator)
    received = messages.new_zeros(messages.numel())
    place = pattern.target[edge] * messages.size(1) + column[entry]
    return received.index_add(0, place, values).view_as(messages)


class ThinnedNet(nn.Module):
    """A backbone whose messages are thinned in every layer, independently, in training."""

    def __init__(self, net: Backbone, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.net, self.rate, self.generator = net, rate, generator

    def forward(self, x: Tensor, edge_index: Any, **inputs: Any) -> Tensor:
        """As the backbone."""
        adjacency = edge_index
        if self.training:
            adjacency = ThinnedMessages(edge_index, rate=self.rate, generator=self.generator)
        logits: Tensor = self.net(x, adjacency, **inputs)
        return logits


@dataclass(frozen=True)
class DropMessage(Dropping):
    """Fang et al. (2023): zero each element of each message, after its coefficient."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        net = backbone(net, self)
        for module in net.modules():
            if isinstance(module, GINConv):
                # GIN's messages are its inputs, but GINConv moves its first linear map before the sum where it leads.
                module.nn = nn.Sequential(nn.Identity(), *module.nn)
        return ThinnedNet(net, self.rate, context.generator)


class VirtualNodeConv(nn.Module):
    """A convolution beside a new node per graph: conv(x)_i + Θ · mean of x over the graph of i."""

    def __init__(self, convolution: Any, inputs: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.convolution = convolution
        self.map = nn.Linear(inputs, width, bias=False, device=generator.device)
        nn.init.xavier_uniform_(self.map.weight, generator=generator)  # not from torch's own stream, which nobody seeds

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """x: [n, F_in], dense or CSR; returns [n, F_out]."""
        own: Tensor = self.convolution(x, graph)
        return own + self._everyone(x, graph).index_select(0, graph.batch)

    def for_targets(self, rows: Tensor, x: Tensor, graph: Graph) -> Tensor:
        """The same for some nodes."""
        own: Tensor = self.convolution.for_targets(rows, x, graph)
        return own + self._everyone(x, graph).index_select(0, graph.batch[rows])

    def _everyone(self, x: Tensor, graph: Graph) -> Tensor:
        """The mapped mean of each graph, [graphs, F_out]."""
        return graph.pool(linear(self.map, x)) / graph.sizes.clamp(min=1)[:, None]


@dataclass(frozen=True)
class VirtualNode(Method):
    """Gilmer et al. (2017): a node joined to all others in every layer, at inference too; nothing is random."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The backbone with a virtual node beside each convolution."""
        net = backbone(net, self)
        for number, convolution in enumerate(net.convolutions):
            inputs = next(weight.size(1) for weight in convolution.parameters() if weight.dim() == 2)
            layer = VirtualNodeConv(convolution, inputs, net.head.in_features, context.generator)
            net.convolutions[number] = layer
        return net
