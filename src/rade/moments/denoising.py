"""Undoing noise in a graph: every pair counts (wA' − qs)/((1−p)r − qs), on average 1 on clean edges, 0 elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.operator import AllPairs, Diagonal, Kernel, Operator, Sparse
from rade.view.observed import Observed


def signed_pairs(observed: Observed, kernel: Kernel, excess: Tensor | float = 1.0) -> Operator:
    """Σ_{j≠i} K_ij (w_ij A'_ij − qs)/((1−p)r − qs) x_j, with w, s and r as in `Trust`.

    Observed edges count for more than one, all other pairs a little less than 0; one sparse product and rank one.
    Where noise differs by factors a_i a_j of the ends, qs a_i a_j/((1−p)r − qs) is taken off every pair; the mean is
    then exact on clean edges and off by O(q²) on others. ``excess`` [n] scales what is taken off each target.
    """
    edges, pattern = kernel.edges(), observed.graph.pattern
    trust = observed.trust.weights(pattern.size, edges.device)
    if observed.leak == 0.0:
        return Operator((Sparse(pattern, _rows(observed.gain * trust, edges) * edges),))
    off, ends = observed.leak * observed.gain, observed.trust.ends
    if isinstance(ends, Tensor):
        kernel = Between(kernel, ends)
        trust = trust * (1.0 + off * ends[pattern.target] * ends[pattern.source]) / (1.0 + off)
    loops = kernel.loops()
    everywhere = Operator((AllPairs(kernel), Diagonal(-loops))).scaled((-off * excess) * torch.ones_like(loops))
    return Operator((Sparse(pattern, _rows(observed.gain * trust, edges) * edges),)) + everywhere


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
    """Values [k] for the rows of a tensor [k, ...], in its precision."""
    return values.to(like.dtype).view(-1, *[1] * (like.dim() - 1))
