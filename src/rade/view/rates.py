"""The two rates of a random view: how often an edge is dropped, how often a non-edge is added."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


def number(rate: float | Tensor) -> float:
    """A rate as a plain number; a tensor may carry gradients."""
    return float(rate.detach()) if isinstance(rate, Tensor) else float(rate)


@dataclass(frozen=True)
class Rates:
    """Drop rate p of edges and add rate q of non-edges (Eq. 6: A'_ij ~ Bernoulli(1−p) or Bernoulli(q)).

    >>> Rates(p=0.5, q=0.001)
    Rates(p=0.5, q=0.001)
    """

    p: float | Tensor = 0.5
    q: float | Tensor = 0.0

    def __post_init__(self) -> None:
        p, q = number(self.p), number(self.q)
        if not 0.0 <= p < 1.0:
            raise ValueError(f"drop rate p must lie in [0, 1), got {p}; p = 1 removes every edge and has no correction")
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"add rate q must lie in [0, 1], got {q}; it is the probability of adding a non-edge")

    def scaled(self, factor: float) -> Rates:
        """The same drop rate with q·factor: n_b/n keeps the additions per node of a model trained on n_b nodes.

        >>> Rates(p=0.5, q=0.01).scaled(0.1)
        Rates(p=0.5, q=0.001)
        """
        return Rates(self.p, self.q * factor)
