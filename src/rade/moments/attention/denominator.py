"""The law of attention's denominator X_i = c_i + Σ_k A'_ik w_ik: which form serves a graph, scores and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from rade.graph.operator import Operator
from rade.moments.attention.all_nodes import AttentionSums
from rade.moments.attention.cell_law import CellLaw
from rade.moments.attention.cells import POINTS, WIDTH
from rade.moments.attention.columns import ColumnOthers, draw_columns
from rade.moments.attention.delta_law import DeltaLaw, ListedOthers, Others, OthersInCells
from rade.moments.attention.lattice import LN2
from rade.moments.attention.nonneighbors import list_pairs, ordered_pairs, sample_nonneighbors
from rade.moments.attention.pair_law import BAND, PairLaw
from rade.moments.attention.scores import FeatureScores, PairScores, Scores
from rade.view.law import Law

SHORT_LIST = 2**18  # pairs that are gone through at the speed of the cache
UNASKED = 64  # samples per node where nobody asked for any: scores of pairs cost by the feature
COLUMNS = 32  # likewise on a single graph, where all nodes share them
TABLE = 2**22  # scores of nodes and columns at inference: on Cora with 8 heads 193 columns, a third of the error of 32
MOST_PAIRS = 2**27  # a list beyond this does not fit into memory


class Denominator(Protocol):
    """What attention asks of the law."""

    def edge_mean(self) -> Tensor:
        """E[α'_ij] given that the edge is on, [E, H]."""

    def loop_mean(self) -> Tensor:
        """E[α'_ii], [n, H]."""

    def edge_variance(self) -> Tensor:
        """Var[α'_ij], [E, H]."""

    def nonedge_mean(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} E[α'_ij] x_j."""

    def nonedge_variance(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} Var[α'_ij] x_j."""


def denominator(scores: PairScores, law: Law) -> Denominator:
    """Exact, or the paper's expansion with all non-neighbors or a sample of them (``complement="sampled"``).

    Where there is no exact law of scores for a graph of that size, the expansion serves; where sums over all
    non-neighbors would need too long a list, the sample.
    """
    listed, samples = listing_is_cheaper(scores), law.correction.samples
    if law.correction.complement == "sampled":
        return DeltaLaw(scores, law.rates, lambda scores, shift: _sampled(scores, shift, law, samples))
    if not (listed or scores.summable):
        return DeltaLaw(scores, law.rates, lambda scores, shift: _unasked(scores, shift, law))
    if law.correction.moments not in ("exact", "delta"):
        raise ValueError(f"attention has no moments {law.correction.moments!r}; it has 'exact' and 'delta'")
    if not is_exact(scores, law):
        return DeltaLaw(scores, law.rates, all_others(scores))
    if listed:
        return PairLaw(scores, law.rates)
    assert isinstance(scores, Scores)
    return CellLaw(AttentionSums(scores), law.rates)


def is_exact(scores: PairScores, law: Law) -> bool:
    """Whether the exact law is used."""
    wanted = law.correction.moments == "exact" and law.correction.complement == "exact"
    return wanted and (scores.uniform or listing_is_cheaper(scores))


def all_others(scores: PairScores) -> Callable[[Any, Tensor], Others]:
    """How all non-neighbors are best summed over."""
    if not (scores.summable or listing_is_cheaper(scores)):
        raise ValueError(
            "noise cannot be undone for scores of pairs (GATv2Conv, TransformerConv) on "
            f"{scores.graph.num_nodes} nodes: sums over all non-neighbors have no closed form; use GATConv"
        )
    return _all_listed if listing_is_cheaper(scores) else OthersInCells


def listing_is_cheaper(scores: PairScores) -> bool:
    """Whether a list of all pairs costs less than cells: in small graphs, and where scores are far apart.

    Pairs take BAND exponentials each; cells a multiplication for each row, level, column and two points, of which
    sixteen cost as much as one exponential.
    """
    if scores.loop.numel() == 0:
        return True
    if not isinstance(scores, Scores) or not scores.uniform:  # cells have no exact law of theirs
        return ordered_pairs(scores.graph) * scores.heads <= SHORT_LIST
    s, t = scores.s.detach(), scores.t.detach()
    columns = torch.unique(torch.floor(s / WIDTH)).numel() + 1
    span = float(s.max() - s.min()) + float(t.max() - t.min())
    levels = min(span / LN2 + 12, BAND * columns)
    by_pairs = ordered_pairs(scores.graph) * scores.heads * min(BAND, levels)
    by_cells = scores.s.numel() * levels * columns * POINTS**2 / 16
    # Long lists leave the cache: on Cora with scores over a range of 150 they took 54 s where cells took one.
    slower = 0.5 if ordered_pairs(scores.graph) * scores.heads <= SHORT_LIST else 16.0
    return slower * by_pairs <= by_cells and ordered_pairs(scores.graph) * scores.heads <= MOST_PAIRS


def _all_listed(scores: PairScores, shift: Tensor) -> Others:
    pattern = list_pairs(scores.graph).pattern
    return ListedOthers(scores, shift, pattern, torch.ones(pattern.size, dtype=torch.double, device=shift.device))


def _sampled(scores: PairScores, shift: Tensor, law: Law, samples: int) -> Others:
    """The paper's estimate: s uniform non-neighbors per node, reused for all its pairs."""
    graph = scores.graph
    pattern, times = law.drawn.once(
        ("non-neighbors", graph, samples), graph.device, lambda source: sample_nonneighbors(graph, samples, source)
    )
    return ListedOthers(scores, shift, pattern, times * graph.nonneighbors[pattern.target].double() / samples)


def _unasked(scores: PairScores, shift: Tensor, law: Law) -> Others:
    """A sample where sums over all non-neighbors would cost too much: shared columns, if there is a single graph."""
    if isinstance(scores, FeatureScores) and scores.graph.num_graphs == 1:
        graph, dtype = scores.graph, scores.narrow[0].dtype
        count = max(COLUMNS, TABLE // (graph.num_nodes * scores.heads)) if law.drawn.lasting else COLUMNS
        columns = law.drawn.once(
            ("columns", graph, count, dtype), graph.device, lambda source: draw_columns(graph, count, source, dtype)
        )
        return ColumnOthers(scores, shift, columns)
    return _sampled(scores, shift, law, min(law.correction.samples, UNASKED))
