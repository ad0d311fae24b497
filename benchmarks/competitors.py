"""What users do against wrong edges today: cut the least similar ones, or keep a few eigenvectors of the adjacency."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor

import rade
from rade.correction import aggregation
from rade.graph.operator import AllPairs, Diagonal, LowRank, Operator
from rade.moments import Coefficients, Mean, Sum, Symmetric
from rade.view.law import Law
from rade.wrapper.inference import Inference, Run

RANKS = (10, 50, 100)  # and the whole graph
ITERATIONS = 12


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The largest eigenvalues of an adjacency matrix by magnitude, which are its singular values, and eigenvectors."""

    values: Tensor  # [R]
    vectors: Tensor  # [n, R]

    @staticmethod
    def of(graph: rade.Graph, rank: int) -> "Spectrum":
        """By subspace iteration with as many vectors again by half, as programs for truncated decompositions do.

        Where spurious edges crowd the spectrum the smallest of many values stay inexact, and ARPACK, with which the
        first rows were made, takes ten times as long.
        """
        matrix = graph.pattern.matrix(torch.ones(graph.pattern.size))
        found = torch.randn(graph.num_nodes, rank + rank // 2, generator=torch.Generator().manual_seed(0))
        for _ in range(ITERATIONS):
            found = torch.linalg.qr(matrix @ found)[0]
        values, vectors = torch.linalg.eigh(found.t() @ (matrix @ found))
        order = values.abs().argsort(descending=True)[:rank]
        return Spectrum(values[order].double(), (found @ vectors[:, order]).double())


@dataclass(frozen=True, eq=False)
class Truncated(rade.Adjacency):
    """The truncated singular value decomposition of an observed adjacency in the place of the graph."""

    observed: rade.Graph
    spectrum: Spectrum
    rank: int

    @property
    def graph(self) -> rade.Graph:
        return self.observed

    @property
    def left(self) -> Tensor:
        return self.spectrum.vectors[:, : self.rank] * self.spectrum.values[: self.rank]

    @property
    def right(self) -> Tensor:
        return self.spectrum.vectors[:, : self.rank]

    @property
    def degree(self) -> Tensor:
        """Row sums; negative ones, which a truncation may have, count as none."""
        return (self.left @ self.right.sum(0)).clamp(min=0.0)


@aggregation.register
def _(adjacency: Truncated, coefficients: Coefficients) -> Operator:
    rows, columns, loop = normalised(coefficients, adjacency.degree)
    dtype = coefficients.dtype
    left, right = (rows[:, None] * adjacency.left).to(dtype), (columns[:, None] * adjacency.right).to(dtype)
    return Operator((AllPairs(LowRank(adjacency.observed, left, right)), Diagonal(loop.to(dtype))))


@singledispatch
def normalised(coefficients: Coefficients, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Factors of targets and of sources, and the loop's coefficient, for an adjacency of these degrees."""
    raise NotImplementedError(f"no low-rank adjacency for {type(coefficients).__name__}")


@normalised.register
def _(coefficients: Sum, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    ones = torch.ones_like(degree)
    return ones, ones, torch.zeros_like(degree)


@normalised.register
def _(coefficients: Mean, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return degree.clamp(min=1.0).reciprocal(), torch.ones_like(degree), torch.zeros_like(degree)


@normalised.register
def _(coefficients: Symmetric, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    root = (degree + coefficients.loop).rsqrt()
    return root, root, coefficients.loop * root.square()


@dataclass(frozen=True, eq=False)
class LowRankInference(Inference):
    """One pass on the truncated adjacency."""

    adjacency: Truncated

    def __call__(self, run: Run, law: Law) -> Tensor:
        found: Tensor = run(self.adjacency)
        return found


def cut(near: Tensor, graph: rade.Graph, share: float) -> rade.Graph:
    """The graph without the share of edges whose ends are least similar; near [E] in its order.

    Edges whose ends have nothing in common are cut together, though they be more than the share: half of the edges
    of a citation graph have no common neighbor. (The columns `pruned` were made with ties kept together instead.)
    """
    bound = near.sort().values[int(share * (len(near) - 1))]
    kept = near > bound if bool(bound == near.min()) else near >= bound
    return rade.Graph.from_edge_index(graph.edge_index[:, kept], graph.num_nodes)


def best(logits: list[Tensor], score: Callable[[Tensor], float]) -> int:
    """Which of several predictions validates best; the first of equals."""
    scores = [score(one) for one in logits]
    return scores.index(max(scores))
