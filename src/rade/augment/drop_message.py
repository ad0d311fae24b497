"""DropMessage (Fang et al., 2023): element-wise dropout on every message, after its coefficient."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Learner, Method, check_rate
from rade.augment.dropout import thin
from rade.correction import aggregation
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Weights
from rade.nn import GINConv
from rade.nn.backbones import Backbone

# Below this share of non-zeros, messages are thinned entry by entry: input features of GIN are wide and mostly zero.
SPARSE_BELOW = 0.1


@dataclass(frozen=True, eq=False)
class ThinnedMessages(Adjacency):
    """An adjacency whose messages each lose elements at random."""

    clean: Graph
    rate: float
    generator: torch.Generator

    @property
    def graph(self) -> Graph:
        return self.clean


@dataclass(frozen=True, eq=False)
class ThinnedSum:
    """Σ_j dropout(α_ij m_j) + dropout(α_ii m_i)."""

    adjacency: ThinnedMessages
    weights: Weights

    def apply(self, messages: Tensor) -> Tensor:
        """messages: [n, F] or [n, H, F]; fresh draws on every call."""
        adjacency, weights = self.adjacency, self.weights
        own = thin(weights.loop.unsqueeze(-1) * messages, adjacency.rate, adjacency.generator)
        if not messages.requires_grad and messages.count_nonzero() < SPARSE_BELOW * messages.numel():
            return own + _receive_entries(adjacency, weights.edges, messages)
        sent = weights.edges.unsqueeze(-1) * messages[adjacency.graph.pattern.source]
        return own + adjacency.graph.pattern.row_sum(thin(sent, adjacency.rate, adjacency.generator))


@aggregation.register
def _(adjacency: ThinnedMessages, coefficients: Coefficients) -> ThinnedSum:
    return ThinnedSum(adjacency, coefficients.realised(coefficients.clean()))


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


class DropMessageLearner(Learner):
    """Thins the messages of every layer, independently."""

    def __init__(self, net: Backbone, generator: torch.Generator, rate: float) -> None:
        super().__init__(net, generator)
        self.rate = rate

    def perturb(self, x: Tensor, graph: Graph) -> tuple[Tensor, Adjacency]:
        """Send the messages of this step through dropout."""
        return x, ThinnedMessages(graph, self.rate, self.generator)


@dataclass(frozen=True)
class DropMessage(Method):
    """Zero each element of each message with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone with dropout on its messages."""
        for module in net.modules():
            if isinstance(module, GINConv):
                # GIN's messages are its inputs, but GINConv moves its first linear map before the sum where it leads.
                module.nn = nn.Sequential(nn.Identity(), *module.nn)
        return DropMessageLearner(net, context.generator, self.rate)
