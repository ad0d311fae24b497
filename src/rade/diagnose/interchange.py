"""Whether added edges could stand in for dropped ones: Prop. 4's ratio, and who makes the variance of the logits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rade.control.variance import variance
from rade.graph.messages import to_anybody
from rade.moments import Sent, Sum
from rade.view.law import Law
from rade.view.rates import Rates, number

EVEN = Rates(0.5, 0.5)  # both kinds of randomness at work: p/(1−p) = 1, q(1−q) = ¼


@dataclass(frozen=True)
class Interchange:
    """κ_i = Σ_{j∉N(i)} m̃_ij² / Σ_{j∈N(i)} m_ij² over nodes: one value for all would let additions replace drops.

    wanted: the κ at which additions at rate q vary a node's logits as drops at rate p do, p/(1−p) / (q(1−q)).
    added: the share of all logit variance that additions make, with the model's own aggregator.
    """

    low: float  # 5 % quantile
    median: float
    high: float  # 95 % quantile
    wanted: float
    added: float
    nodes: int


def interchange(sent: Sent, law: Law) -> Interchange:
    """Prop. 4's ratio of the messages that the last convolution sends, and the shares of drops and additions."""
    kappa = ratios(to_anybody(sent.per_head).sum(1), law)
    low, median, high = torch.quantile(kappa, torch.tensor([0.05, 0.5, 0.95], dtype=kappa.dtype)).tolist()
    p, q = number(law.rates.p), number(law.rates.q)
    found = variance(sent, law)
    total = float(found.total.sum())
    added = float(found.add.sum()) / total if total > 0.0 else float("nan")
    wanted = p / (1.0 - p) / (q * (1.0 - q)) if 0.0 < q < 1.0 else float("inf")
    return Interchange(low, median, high, wanted, added, kappa.numel())


def ratios(messages: Tensor, law: Law) -> Tensor:
    """κ of every node that has a message from a neighbor, [k]; messages [n, C], squares added over C."""
    even = replace(law, rates=EVEN, noise=Law.noise, trust=Law.trust)
    found = variance(Sent(Sum(law.graph, messages.dtype), messages), even)
    edges, nonedges = found.drop.sum(1), 4.0 * found.add.sum(1)
    return nonedges[edges > 0] / edges[edges > 0]
