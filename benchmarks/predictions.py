"""Every way to predict on a corrupted graph with one trained model, for `corrupted_graphs.py`.

- `plain`; `known`, `half`, `double`: mean of spurious edges taken off, at the true share or a wrong one;
- `edges`, `edges-hidden`, `edges-common`: the true share, edges trusted by the similarity of raw features, of the
  trained network's hidden features, by common neighbors;
- `estimated-mean`, `estimated`, `estimated-any`: by `rade.estimate_noise` on the validation labels, without trust in
  single edges, with trust by raw features, with the best of all three;
- `cut`, `cut-common`: the least similar edges cut by raw features or by common neighbors, the share by
  validation accuracy;
- `low-rank`: the truncated singular value decomposition of the adjacency, the rank (or the whole) by validation.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from cases import Case, Task, generator
from competitors import RANKS, LowRankInference, Truncated, best, cut
from torch import Tensor

import rade
from rade.noise import EdgeEvidence, hidden, rates_of

SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
WAYS = (
    "plain", "known", "half", "double", "edges", "edges-hidden", "edges-common", "estimated-mean", "estimated",
    "estimated-any", "cut", "cut-common", "low-rank",
)  # fmt: skip


class Judge:
    """Scores of one model on corrupted graphs."""

    def __init__(self, task: Task, model: rade.RADE, seed: int) -> None:
        self.task, self.model, self.split = task, model, task.dataset.split(run=seed)

    @torch.no_grad()
    def outputs(self, graph: rade.Graph, inference: rade.Inference) -> Tensor:
        logits: Tensor = self.model.by(inference)(self.task.x, graph)
        return logits

    def score(self, logits: Tensor) -> dict[str, Any]:
        rows, y = self.split.test, self.task.y
        accuracy = 100 * float((logits.argmax(1) == y)[rows].float().mean())
        return {"accuracy": round(accuracy, 3), "loss": round(float(F.cross_entropy(logits[rows], y[rows])), 4)}

    def validation(self, logits: Tensor) -> float:
        return float((logits.argmax(1) == self.task.y)[self.split.val].float().mean())

    def scores(self, case: Case, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """By way, in the order of `WAYS`."""
        found = {}
        for group, names in GROUPS:
            if set(names) & set(ways):
                found.update({name: score for name, score in group(self, case, ways).items() if name in ways})
        return {name: found[name] for name in WAYS if name in found}


def _rates(judge: Judge, case: Case, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    share, drop = case.corruption.share, case.corruption.drop
    found = {"plain": judge.score(judge.outputs(case.graph, rade.Expected()))}
    for name, factor in (("known", 1.0), ("half", 0.5), ("double", 2.0)):
        rates = rates_of(case.graph, min(share * factor, 0.95), min(drop * factor, 0.95))
        found[name] = judge.score(judge.outputs(case.graph, rade.Denoised(rates)))
    return found


def _evidence(judge: Judge, case: Case, ways: tuple[str, ...]) -> list[EdgeEvidence]:
    """Raw features, and where asked for hidden ones, which GAT has none of, and common neighbors."""
    found = [case.features]
    if {"edges-hidden", "estimated-any"} & set(ways):
        try:
            own = hidden(judge.model, judge.task.x, case.graph)
            found.append(EdgeEvidence.of(case.graph, own, generator()))
        except ValueError:
            pass
    if {"edges-common", "estimated-any"} & set(ways):
        found.append(case.common)
    return found


def _edges(judge: Judge, case: Case, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    share, evidence = case.corruption.share, _evidence(judge, case, ways)
    rates, found = rates_of(case.graph, share, case.corruption.drop), {}
    names = {"features": "edges", "hidden features": "edges-hidden", "common neighbors": "edges-common"}
    for one in evidence:
        logits = judge.outputs(case.graph, rade.Denoised(rates, one.trust(share)))
        found[names[one.name]] = judge.score(logits) | {"similar": round(one.groups.share, 4)}
    if {"estimated-mean", "estimated", "estimated-any"} & set(ways):
        found |= _estimated(judge, case, evidence)
    return found


def _estimated(judge: Judge, case: Case, evidence: list[EdgeEvidence]) -> dict[str, dict[str, Any]]:
    """All guesses tried once; what fewer kinds of trust would have chosen follows from the same passes."""
    every = rade.estimate_noise(
        judge.model, judge.task.x, case.graph, labels=judge.task.y, rows=judge.split.val, shares=SHARES,
        by_edge=evidence,
    )  # fmt: skip
    kinds = {"estimated-mean": every.among(), "estimated": every.among("features"), "estimated-any": every}
    found = {}
    for name, estimate in kinds.items():
        chosen = {"share": estimate.chosen.share, "interval": estimate.interval, "by": estimate.chosen.by}
        found[name] = judge.score(judge.outputs(case.graph, estimate.inference)) | chosen
    return found


def _cut(judge: Judge, case: Case, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, near in case.near.items():
        if name in ways:
            graphs = (case.graph if share == 0.0 else cut(near, case.graph, share) for share in SHARES)
            logits = [judge.outputs(graph, rade.Expected()) for graph in graphs]
            chosen = best(logits, judge.validation)
            found[name] = judge.score(logits[chosen]) | {"share": SHARES[chosen]}
    return found


def _low_rank(judge: Judge, case: Case, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    if judge.model.variant.keeps_additions:
        return {}
    logits = [judge.outputs(case.graph, rade.Expected())]
    try:
        for rank in RANKS:
            adjacency = Truncated(case.graph, case.spectrum, rank)
            logits.append(judge.outputs(case.graph, LowRankInference(adjacency)))
    except NotImplementedError:  # attention has scores of single edges
        return {}
    chosen = best(logits, judge.validation)
    return {"low-rank": judge.score(logits[chosen]) | {"rank": (None, *RANKS)[chosen]}}


Group = Callable[[Judge, Case, tuple[str, ...]], dict[str, dict[str, Any]]]
GROUPS: tuple[tuple[Group, tuple[str, ...]], ...] = (
    (_rates, WAYS[:4]),
    (_edges, WAYS[4:10]),
    (_cut, ("cut", "cut-common")),
    (_low_rank, ("low-rank",)),
)
