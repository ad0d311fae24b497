"""How many observed edges are real, told without labels: spurious ones are as alike as random pairs are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

LOW, HIGH = 20, 11  # bins by the quantiles of random pairs, and equal ones beyond the last of them
PSEUDO = 0.5  # an empty bin says "few", not "none"
NEARLY_ALL = 0.99


@dataclass(frozen=True, eq=False)
class TwoGroups:
    """Similarities f of observed edges as a mixture π f₀ + (1−π) f₁ of spurious edges, alike as random pairs, and real.

    Attributes:
        edges: f, the share of observed edges in each bin of similarities, [B].
        random: f₀, the share of random pairs in each bin, [B].
        bounds: between the bins, [B − 1].
    """

    edges: Tensor
    random: Tensor
    bounds: Tensor

    @staticmethod
    def of(edges: Tensor, random: Tensor) -> TwoGroups:
        """From similarities of the observed edges [E] and of random pairs [R]."""
        bounds = _bounds(random.double())
        return TwoGroups(_shares(edges, bounds), _shares(random, bounds), bounds)

    @property
    def share(self) -> float:
        """π, the share of spurious edges: the lowest f/f₀ among dissimilar pairs, where real edges are rarest.

        An upper bound in the limit, far above the truth where real edges often join dissimilar nodes. The lowest
        tenth stands for the lowest, which would fall with the number of bins.
        """
        ratio = self.edges / self.random
        return float(torch.quantile(ratio[: max(len(ratio) // 2, 1)], 0.1).clamp(max=NEARLY_ALL))

    def real(self, share: float) -> Tensor:
        """P(real | similarity) = 1 − π f₀/f for each bin, made to rise with similarity, [B] in double precision."""
        return 1.0 - torch.cummin((share * self.random / self.edges).clamp(0.0, 1.0), 0)[0]

    def bin_of(self, similarity: Tensor) -> Tensor:
        """The bin of each similarity, [P]."""
        return torch.bucketize(similarity.double(), self.bounds)


def _bounds(random: Tensor) -> Tensor:
    """Quantiles of random similarities, then equal steps up to 1, where there are hardly any."""
    steps = partial(torch.linspace, dtype=torch.double, device=random.device)
    low = torch.unique(torch.quantile(_thinned(random), steps(0, 1, LOW + 1)[1:-1]))
    high = steps(float(low[-1]), max(1.0, float(random.max())), HIGH + 1)[1:-1]
    bounds: Tensor = torch.unique(torch.cat([low, high]))
    return bounds


def _thinned(values: Tensor, most: int = 10_000_000) -> Tensor:
    """At most as many values as torch.quantile takes, evenly spaced in their order."""
    return values[:: -(-len(values) // most)]


def _shares(similarity: Tensor, bounds: Tensor) -> Tensor:
    count = torch.bincount(torch.bucketize(similarity.double(), bounds), minlength=len(bounds) + 1).double() + PSEUDO
    return count / count.sum()
