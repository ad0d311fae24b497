"""DropNode (Feng et al., 2020): whole rows of the (encoded) input features are zeroed, the others scaled up."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Learner, Method, check_rate
from rade.augment.dropout import thin
from rade.nn.backbones import Backbone


def scale_rows(x: Tensor, factor: Tensor) -> Tensor:
    """x with row i multiplied by factor[i]; x: [n, F] dense or sparse CSR."""
    if x.layout is torch.strided:
        return x * factor.unsqueeze(1)
    crow = x.crow_indices()
    values = x.values() * factor.repeat_interleave(crow.diff())
    return torch.sparse_csr_tensor(crow, x.col_indices(), values, x.shape, check_invariants=False)


class RowDropout(nn.Module):
    """Zeroes each row with probability `rate` and scales the others by 1/(1 − rate), in training."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = rate
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """A fresh set of rows at every training step; x: [n, F] dense or sparse CSR."""
        if not self.training:
            return x
        return scale_rows(x, thin(torch.ones(x.size(0), device=x.device), self.rate, self.generator))


@dataclass(frozen=True)
class DropNode(Method):
    """Zero the features of each node with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone on features with random rows missing, once they are encoded: categories cannot be scaled."""
        net.before = RowDropout(self.rate, context.generator)
        return Learner(net, context.generator)
