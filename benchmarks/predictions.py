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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from competitors import RANKS, LowRankInference, Spectrum, Truncated, best, cut
from torch import Tensor

import rade
from rade.noise import CommonNeighbors, EdgeEvidence, Similarity, cosine, hidden, rates_of
from rade.noise.edges import similarity_of_edges
from rade.train.corruption import Corruption

SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
WAYS = (
    "plain", "known", "half", "double", "edges", "edges-hidden", "edges-common", "estimated-mean", "estimated",
    "estimated-any", "cut", "cut-common", "low-rank",
)  # fmt: skip
# Rows of some data sets sum to 1 and learn slowly as they are: features are multiplied.
FACTOR = {"cs": 8.0, "computer": 16.0, "pubmed": 8.0, "physics": 8.0}
GRAM_ABOVE, GRAM_NODES = 200, 15_000  # entries per row and nodes at which all cosines are computed at once


@dataclass(frozen=True)
class Task:
    """A data set ready for training."""

    name: str
    x: Tensor
    y: Tensor
    graph: rade.Graph
    dataset: rade.data.Dataset
    near: Similarity  # by raw features

    @staticmethod
    def of(name: str) -> "Task":
        dataset = rade.data.load(name)
        data = dataset.graphs[0]
        x = data.x if data.x.layout != torch.strided else data.x.to_sparse_csr()
        values = x.values() * FACTOR.get(name, 1.0)
        scaled = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
        graph = rade.Graph.from_edge_index(data.edge_index, x.shape[0])
        return Task(name, scaled, data.y, graph, dataset, Kept(scaled))


class Kept(Similarity):
    """Cosines of raw features, of random pairs computed once for all graphs, of full rows by one matrix product."""

    name = "features"

    def __init__(self, x: Tensor) -> None:
        self.x, self.random = x, (torch.empty(2, 0), torch.empty(0))

    @cached_property
    def gram(self) -> Tensor | None:
        if self.x.values().numel() < GRAM_ABOVE * self.x.shape[0] or self.x.shape[0] > GRAM_NODES:
            return None
        unit = F.normalize(self.x.to_dense(), dim=1)
        return unit @ unit.t()

    def of(self, graph: rade.Graph, pairs: Tensor) -> Tensor:
        if self.gram is not None:
            return self.gram[pairs[0], pairs[1]]
        if not torch.equal(pairs, self.random[0]):
            found = cosine(self.x, pairs)
            if pairs.shape[1] == 32 * graph.num_nodes:  # the partners, equal for graphs of equal size
                self.random = pairs, found
            return found
        return self.random[1]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


T = TypeVar("T")


@dataclass(frozen=True)
class Stored(Similarity):
    """A similarity whose values are kept in files: those of common neighbors take longer than all passes of a model."""

    similarity: Similarity
    keep: Callable[[str, Callable[[], Tensor]], Tensor]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.similarity.name

    def of(self, graph: rade.Graph, pairs: Tensor) -> Tensor:
        return self.keep(f"common-{pairs.shape[1]}", lambda: self.similarity.of(graph, pairs))


@dataclass(frozen=True)
class Case:
    """A corrupted graph and what all models may use about it."""

    task: Task
    corruption: Corruption
    graph: rade.Graph
    folder: Path | None = None  # keeps what depends on the graph alone

    def keep(self, name: str, build: Callable[[], T]) -> T:
        if self.folder is None:
            return build()
        value = self.corruption
        path = self.folder / f"{self.task.name}-{value.seed}-{value.drop:g}-{value.add:g}-{name}.pt"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save(build(), path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
        found: T = torch.load(path, weights_only=True)
        return found

    @cached_property
    def features(self) -> EdgeEvidence:
        return EdgeEvidence.of(self.graph, self.task.near, generator())

    @cached_property
    def common(self) -> EdgeEvidence:
        return EdgeEvidence.of(self.graph, Stored(CommonNeighbors(), self.keep), generator())

    @cached_property
    def near(self) -> dict[str, Tensor]:
        """The similarity of all edges, by the way that cuts by it."""
        kinds = {"cut": self.task.near, "cut-common": Stored(CommonNeighbors(), self.keep)}
        return {name: similarity_of_edges(self.graph, kind) for name, kind in kinds.items()}

    @cached_property
    def spectrum(self) -> Spectrum:
        def build() -> tuple[Tensor, Tensor]:
            found = Spectrum.of(self.graph, max(RANKS))
            return found.values, found.vectors

        return Spectrum(*self.keep(f"subspace-{max(RANKS)}", build))


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
