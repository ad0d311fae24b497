"""DropEdge (Rong et al., 2020): train on a random subgraph, renormalised and uncorrected."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Learner, Method, check_rate
from rade.control.rules import Constant
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.nn.backbones import Backbone
from rade.view.law import Law, Variant, Views
from rade.view.rates import Rates
from rade.view.sampling import sample
from rade.wrapper.module import RADE


class DropEdgeLearner(Learner):
    """Draws a subgraph for every training step."""

    def __init__(self, net: Backbone, generator: torch.Generator, rate: float) -> None:
        super().__init__(net, generator)
        self.dropping = Rates(rate, 0.0)

    def perturb(self, x: Tensor, graph: Graph) -> tuple[Tensor, Adjacency]:
        """Drop each undirected edge independently."""
        return x, sample(Law(graph, self.dropping, Variant.NONE, generator=self.generator))

    @property
    def rates(self) -> Rates:
        """The drop rate; nothing is added."""
        return self.dropping


@dataclass(frozen=True)
class DropEdge(Method):
    """Drop each undirected edge with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone on random subgraphs."""
        return DropEdgeLearner(net, context.generator, self.rate)

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model on random subgraphs, one for all layers, with coefficients that nothing corrects."""
        rates = Constant(self.rate, 0.0)
        return RADE(net, Variant.NONE, rule=rates, views=Views(shared=True), generator=context.generator)
