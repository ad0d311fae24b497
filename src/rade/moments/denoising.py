"""Undoing noise in a graph: every pair counts (wA' − qs)/((1−p)r − qs), on average 1 on clean edges, 0 elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rade.graph.operator import AllPairs, Diagonal, Kernel, Operator, Sparse
from rade.view.observed import Observed


def signed_pairs(observed: Observed, kernel: Kernel) -> Operator:
    """Σ_{j≠i} K_ij (w_ij A'_ij − qs a_i a_j)/((1−p)r − qs) x_j, with w, s, r, a as in `Trust`.

    Observed edges count for more than one, all other pairs a little less than 0; one sparse product and rank one.
    """
    edges, pattern = kernel.edges(), observed.graph.pattern
    trust = observed.trust.weights(pattern.size, edges.device).to(edges.dtype)
    trusted = Operator((Sparse(pattern, observed.gain * _rows(trust, edges) * edges),))
    if observed.leak == 0.0:
        return trusted
    if isinstance(observed.trust.ends, Tensor):
        kernel = Between(kernel, observed.trust.ends.to(edges.dtype))
    loops = kernel.loops()
    everywhere = Operator((AllPairs(kernel), Diagonal(-loops)))
    return trusted + everywhere.scaled(loops.new_full(loops.shape, -observed.leak * observed.gain))


@dataclass(frozen=True, eq=False)
class Between(Kernel):
    """a_i K_ij a_j, with a factor for every node, [n]."""

    kernel: Kernel
    ends: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Scaled before and after."""
        return _rows(self.ends, x) * self.kernel.apply(_rows(self.ends, x) * x)

    def edges(self) -> Tensor:
        """On the clean edges, [E] or [E, H]."""
        raise NotImplementedError("factors of nodes stand on all pairs; edges have weights of their own")

    def loops(self) -> Tensor:
        """a_i² K_ii, [n] or [n, H]."""
        loops = self.kernel.loops()
        return _rows(self.ends, loops).square() * loops


def _rows(values: Tensor, like: Tensor) -> Tensor:
    """Values [k] for the rows of a tensor [k, ...]."""
    return values.view(-1, *[1] * (like.dim() - 1))
