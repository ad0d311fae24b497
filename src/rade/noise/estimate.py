"""How noisy a graph is: by validation scores of a trained model, and by similarities of edges without labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.noise.edges import EdgeEvidence
from rade.view.rates import Rates
from rade.wrapper.inference import Denoised
from rade.wrapper.module import RADE

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class Candidate:
    """One guess of the noise and how well the model predicts with it."""

    share: float  # of observed edges that are spurious
    drop: float  # rate at which real edges are missing
    by_edge: bool  # whether edges are trusted by the similarity of their ends
    score: float  # on validation rows


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """What noise a graph has, by validation: use it as ``model.by(estimate.inference)`` or ``RADE(noise=rates)``.

    Attributes:
        inference: how to predict on this graph.
        chosen: the guess it stands for.
        curve: all guesses with their scores.
        interval: least and largest share whose score cannot be told from the best (two standard errors of the paired
            difference): wide on few validation rows, or where noise does not matter.
        similar: the share by similarities of edges alone, without labels: an upper bound, often far too large; None
            without features.
    """

    inference: Denoised
    chosen: Candidate
    curve: tuple[Candidate, ...]
    interval: tuple[float, float]
    similar: float | None

    @property
    def rates(self) -> Rates:
        """The rates of missing and of spurious edges."""
        return self.inference.noise

    def __str__(self) -> str:
        low, high = self.interval
        rest = "" if self.similar is None else f"; similarities alone say {self.similar:.0%}"
        how = "trusted by similarity" if self.chosen.by_edge else "all trusted alike"
        return (
            f"{self.chosen.share:.0%} of the observed edges are spurious ({low:.0%} to {high:.0%}), {how}; "
            f"p = {self.rates.p:g}, q = {self.rates.q:.3g}; validation score {self.chosen.score:.1%}{rest}"
        )


def rates_of(graph: Graph, share: float, drop: float = 0.0) -> Rates:
    """The rates that make ``share`` of the observed edges spurious, where ``drop`` of the real ones are missing.

    >>> from rade.testing import undirected
    >>> rates_of(undirected([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 5), share=0.2)
    Rates(p=0.0, q=0.16666666666666666)
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"the share of spurious edges must lie in [0, 1), got {share:g}")
    clean = graph.num_edges * (1.0 - share) / (1.0 - drop)
    return Rates(drop, min(share * graph.num_edges / max(graph.num_pairs - clean, 1.0), 1.0))


@torch.no_grad()
def estimate_noise(
    model: RADE,
    *args: Any,
    labels: Tensor,
    rows: Tensor,
    shares: Sequence[float] = SHARES,
    drops: Sequence[float] = (0.0,),
    by_edge: bool = True,
    generator: torch.Generator | None = None,
    **kwargs: Any,
) -> NoiseEstimate:
    """The noise of a graph with which a trained model predicts validation rows best; evaluation passes only.

    A guess other than "no noise" must beat it by one standard error of the paired difference.

    Args:
        model: in evaluation mode; a model that was never trained with RADE comes as ``RADE(net, rule=Constant(0, 0))``.
        args, kwargs: what the model's forward takes.
        labels: of all rows: classes [n], or targets [n, C] of which those above ½ count.
        rows: the validation rows, int64 ids or a bool mask.
        shares, drops: guesses of the share of spurious edges and of the rate of missing ones.
        by_edge: also try trust in single edges, where the model has features of nodes.
        generator: of random pairs; by default one of seed 0, so that equal graphs give equal estimates.
    """
    if model.training:
        raise RuntimeError("estimate_noise needs a trained model in evaluation mode: call model.eval() first")
    x, graph = model.graph_of(*args, **kwargs)
    source = torch.Generator(graph.device).manual_seed(0) if generator is None else generator
    evidence = _evidence(graph, x, source) if by_edge else None
    similar = None if evidence is None else evidence.groups.share
    known = sorted({0.0, *shares} | (set() if similar is None else {round(similar, 3)}))
    tried: list[tuple[Candidate, Denoised, Tensor]] = []
    for share, drop, trusting in _guesses(known, drops, evidence is not None):
        inference = Denoised(rates_of(graph, share, drop))
        if trusting and evidence is not None:
            inference = Denoised(inference.noise, evidence.trust(share))
        right = _right(model.by(inference)(*args, **kwargs), labels)[rows]
        tried.append((Candidate(share, drop, trusting, float(right.mean())), inference, right))
    return _chosen(tried, similar)


def _guesses(shares: Sequence[float], drops: Sequence[float], by_edge: bool) -> Iterator[tuple[float, float, bool]]:
    """No noise first, then from less to more: the first of equals is taken."""
    for drop in drops:
        for share in shares:
            yield share, drop, False
            if by_edge and share > 0.0:
                yield share, drop, True


def _chosen(tried: list[tuple[Candidate, Denoised, Tensor]], similar: float | None) -> NoiseEstimate:
    best = max(tried, key=lambda one: one[0].score)
    gain, error = _paired(best[2], tried[0][2])
    if gain <= error:
        best = tried[0]
    comparable = [one for one in tried if one[0].by_edge == best[0].by_edge or one[0].share == 0.0]
    alike = [guess.share for guess, _, right in comparable if _close(best[2], right)]
    return NoiseEstimate(best[1], best[0], tuple(one[0] for one in tried), (min(alike), max(alike)), similar)


def _close(best: Tensor, other: Tensor) -> bool:
    gain, error = _paired(best, other)
    return gain <= 2.0 * error


def _paired(one: Tensor, other: Tensor) -> tuple[float, float]:
    """Mean difference and its standard error."""
    difference = (one - other).double()
    return float(difference.mean()), float(difference.std(correction=0)) / max(len(difference), 1) ** 0.5


def _right(logits: Tensor, labels: Tensor) -> Tensor:
    """Which rows are predicted rightly, [n]; of several targets the share."""
    if labels.is_floating_point():
        return ((logits > 0) == (labels.view_as(logits) > 0.5)).float().mean(1)
    return (logits.argmax(1) == labels).float()


def _evidence(graph: Graph, x: Tensor | None, generator: torch.Generator) -> EdgeEvidence | None:
    """Of graphs with features of nodes."""
    if x is None or x.dim() != 2 or x.shape[0] != graph.num_nodes or graph.num_edges == 0:
        return None
    return EdgeEvidence.of(graph, x, generator)
