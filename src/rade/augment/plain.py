"""No regulariser: the backbone as it is."""

from dataclasses import dataclass

from torch import nn

from rade.augment.base import Context, Learner, Method
from rade.nn.backbones import Backbone


@dataclass(frozen=True)
class Plain(Method):
    """Train on the clean graph."""

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone as it is."""
        return Learner(net, context.generator)

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model as it is."""
        return net
