"""A virtual node (Gilmer et al., 2017): joined to every node of its graph, it passes on the mean of what all send."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Learner, Method
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Sent
from rade.nn.backbones import Backbone
from rade.nn.base import CorrectedConv
from rade.nn.linear import linear


class VirtualNodeConv(nn.Module):
    """A convolution beside a new node per graph: conv(x)_i + Θ · mean of x over the graph of i."""

    hears_everybody = True

    def __init__(self, convolution: nn.Module, inputs: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.convolution = convolution
        self.map = nn.Linear(inputs, width, bias=False, device=generator.device)
        nn.init.xavier_uniform_(self.map.weight, generator=generator)  # not from torch's own stream, which nobody seeds

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """x: [n, F_in], dense or CSR; returns [n, F_out], or the rows of a restricted adjacency."""
        own: Tensor = self.convolution(x, adjacency)
        graph = adjacency.graph
        heard = graph.pool(linear(self.map, x)) / graph.sizes.clamp(min=1)[:, None]  # [graphs, F_out]
        return own + heard.index_select(0, adjacency.own(graph.batch))

    def layer_key(self, step: int = 0) -> Any:
        """That of the convolution."""
        return cast(CorrectedConv, self.convolution).layer_key(step)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the convolution sends along edges."""
        return cast(CorrectedConv, self.convolution).sent(head, graph, x, **inputs)


@dataclass(frozen=True)
class VirtualNode(Method):
    """Add a virtual node to every layer, in training and at inference; nothing is random."""

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone with a virtual node beside each convolution."""
        for number, convolution in enumerate(net.convolutions):
            inputs = next(weight.size(1) for weight in convolution.parameters() if weight.dim() == 2)
            layer = VirtualNodeConv(convolution, inputs, net.head.in_features, context.generator)
            net.convolutions[number] = layer
        return Learner(net, context.generator)
