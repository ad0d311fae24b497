"""How noisy a graph is: by validation scores of a trained model, and by similarities of edges without labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.noise.edges import EdgeEvidence
from rade.noise.every import has_features, source_for
from rade.noise.evidence import Evidence
from rade.noise.guesses import Candidate, Guess, NoiseEstimate, inference_of, rightly
from rade.wrapper.module import RADE

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@torch.no_grad()
def estimate_noise(
    model: RADE,
    *args: Any,
    labels: Tensor,
    rows: Tensor,
    shares: Sequence[float] = SHARES,
    drops: Sequence[float] = (0.0,),
    by_edge: bool | Sequence[Evidence] = True,
    generator: torch.Generator | None = None,
    **kwargs: Any,
) -> NoiseEstimate:
    """The noise of a graph with which a trained model predicts validation rows best; evaluation passes only.

    A guess other than "no noise" must beat it by one standard error of the paired difference.

    Args:
        model: in evaluation mode; a model that was never trained with RADE comes as ``RADE(net, rule=Constant(0, 0))``.
        args, kwargs: what the model's forward takes.
        labels: of all rows: classes [n], or targets as the model's outputs are shaped, of which those above ½ count.
        rows: the validation rows, int64 ids or a bool mask.
        shares, drops: guesses of the share of spurious edges and of the rate of missing ones.
        by_edge: also try trust in single edges, by the cosine of the features where the model has features of nodes;
            or by what you give, each of which is tried: `rade.noise.every_evidence(model, ...)` has four kinds.
        generator: of random pairs; by default one of seed 0, so that equal graphs give equal estimates.
    """
    if not isinstance(model, RADE):
        raise TypeError(
            f"estimate_noise needs a model in RADE, got {type(model).__name__}: "
            "rade.RADE(net, rule=rade.Constant(0, 0)).eval()"
        )
    if model.training:
        raise RuntimeError("estimate_noise needs a trained model in evaluation mode: call model.eval() first")
    x, graph = model.graph_of(*args, **kwargs)
    if len(rows) == 0 or (rows.dtype == torch.bool and not bool(rows.any())):
        raise ValueError("rows must hold at least one validation row, got none")
    if len(labels) != graph.num_nodes:
        raise ValueError(f"labels must have one row for each of the {graph.num_nodes} nodes, got {len(labels)}")
    own = _evidence(graph, x, generator) if by_edge is True else []
    given: Sequence[Evidence] = own if isinstance(by_edge, bool) else by_edge
    guesses = []
    for share, drop, evidence in _guesses(sorted({0.0, *shares}), sorted({0.0, *drops}), given):
        logits = model.by(inference_of(graph, share, drop, evidence))(*args, **kwargs)
        right = rightly(logits, labels)[rows]
        by = "" if evidence is None else evidence.name
        guesses.append(Guess(Candidate(share, drop, by, float(right.mean())), graph, evidence, right))
    return NoiseEstimate(tuple(guesses), next((one.told for one in given if one.told is not None), None))


def _guesses(
    shares: Iterable[float], drops: Sequence[float], given: Sequence[Evidence]
) -> Iterator[tuple[float, float, Evidence | None]]:
    """No noise first, then from less to more, the first of equals is taken; evidence also at the share it tells."""
    told = [(None if one.told is None else round(one.told, 3), one) for one in given]
    for drop in drops:
        for share in sorted({*shares, *(at for at, _ in told if at is not None)}):
            if share in shares:
                yield share, drop, None
            if share > 0.0:
                yield from ((share, drop, one) for at, one in told if share in shares or at == share)


def _evidence(graph: Graph, x: Tensor | None, generator: torch.Generator | None) -> list[Evidence]:
    """Of graphs with features of nodes."""
    if x is None or not has_features(graph, x) or graph.num_edges == 0:
        return []
    return [EdgeEvidence.of(graph, x, source_for(graph, generator))]
