"""DropNode (Feng et al., 2020): whole rows of the input features are zeroed, the others scaled up."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.augment.base import Context, Learner, check_rate
from rade.augment.dropout import thin
from rade.graph import Graph
from rade.nn.models import Backbone


def scale_rows(x: Tensor, factor: Tensor) -> Tensor:
    """x with row i multiplied by factor[i]; x: [n, F] dense or sparse CSR."""
    if x.layout is torch.strided:
        return x * factor.unsqueeze(1)
    crow = x.crow_indices()
    values = x.values() * factor.repeat_interleave(crow.diff())
    return torch.sparse_csr_tensor(crow, x.col_indices(), values, x.shape, check_invariants=False)


class DropNodeLearner(Learner):
    """Zeroes a fresh set of feature rows at every training step."""

    def __init__(self, net: Backbone, generator: torch.Generator, rate: float) -> None:
        super().__init__(net, generator)
        self.rate = rate

    def perturb(self, x: Tensor, graph: Graph) -> tuple[Tensor, object]:
        """Zero each node's features with probability `rate`, scale the others by 1/(1 − rate)."""
        return scale_rows(x, thin(torch.ones(x.size(0), device=x.device), self.rate, self.generator)), graph


@dataclass(frozen=True)
class DropNode:
    """Zero the features of each node with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone on features with random rows missing."""
        return DropNodeLearner(net, context.generator, self.rate)
