"""Models trained on a clean graph and tested on corrupted ones, with and without denoising: one JSON line per result.

    RADE_DATA=data python benchmarks/corrupted_graphs.py --dataset cora --backbone gcn --method none,rade-of \
        --seeds 5 --out results/noisy/rows.jsonl

Lines that are in the file already are not computed again. For a seed all methods share split, first weights and
corrupted graphs. Per line: test accuracy and mean log-loss of every way to predict on one corrupted graph:

- `plain`; `known`, `half`, `double`: mean of spurious edges taken off, at the true rates or wrong ones;
- `edges`: the true share, edges trusted by similarity; `estimated`: by `rade.estimate_noise`; `estimated-mean`: the
  same without trust in single edges; `pruned`: the least similar edges cut, the share by validation accuracy.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import rade
from rade.augment import Context, Labelled, Learner, make
from rade.nn.backbones import build_backbone
from rade.noise import EdgeEvidence, cosine, rates_of
from rade.train.corruption import Corruption
from rade.train.provenance import commit, versions

CORRUPTIONS = {
    "clean": Corruption(), "add10": Corruption(add=0.1), "add30": Corruption(add=0.3), "add100": Corruption(add=1.0),
    "add200": Corruption(add=2.0), "drop30": Corruption(drop=0.3), "drop60": Corruption(drop=0.6),
    "mix50": Corruption(drop=0.5, add=0.5),
}  # fmt: skip
SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
# Rows of CS and Computer sum to 1 and learn slowly as they are: features are multiplied.
TRAINING = {"cs": (50, 64, 8.0), "computer": (80, 64, 16.0), "pubmed": (100, 64, 8.0)}
OTHERS = (80, 128, 1.0)  # epochs, width, factor
LEARNING_RATE = 0.01
KEY = ("dataset", "backbone", "method", "seed", "corruption")


@dataclass(frozen=True)
class Task:
    """A data set ready for training."""

    name: str
    x: Tensor
    y: Tensor
    graph: rade.Graph
    dataset: rade.data.Dataset

    @staticmethod
    def of(name: str) -> "Task":
        dataset = rade.data.load(name)
        data, factor = dataset.graphs[0], TRAINING.get(name, OTHERS)[2]
        x = data.x if data.x.layout != torch.strided else data.x.to_sparse_csr()
        scaled = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), x.values() * factor, x.shape)
        graph = rade.Graph.from_edge_index(data.edge_index, x.shape[0])
        return Task(name, scaled, data.y, graph, dataset)


@dataclass(frozen=True)
class Job:
    """Which model: all that one training needs."""

    dataset: str
    backbone: str
    method: str
    seed: int


def trained(task: Task, job: Job) -> Learner:
    """The weights of the best validation epoch on the clean graph; all methods with the same number of epochs."""
    epochs, width, _ = TRAINING.get(task.name, OTHERS)
    torch.manual_seed(job.seed)
    net = build_backbone(job.backbone, task.dataset.features, width, task.dataset.classes)
    context = Context(torch.Generator().manual_seed(job.seed), task.graph.density, task.dataset.loss, "none")
    learner, split = make(job.method).wrap(net, context), task.dataset.split(run=job.seed)
    optimizer, best, state = torch.optim.Adam(learner.parameters(), LEARNING_RATE), -1.0, {}
    for epoch in range(epochs):
        learner.train()
        optimizer.zero_grad()
        F.cross_entropy(learner(task.x, task.graph)[split.train], task.y[split.train]).backward()
        optimizer.step()
        if learner.adapts_after(True):
            learner.adapt(task.x, task.graph, None, Labelled(split.train))
        if epoch % 2 == 0 and epoch < epochs // 2:
            continue  # the best epoch is late: fewer evaluations before
        learner.eval()
        with torch.no_grad():
            right = learner(task.x, task.graph).argmax(1) == task.y
        if (score := float(right[split.val].float().mean())) > best:
            best, state = score, deepcopy(learner.state_dict())
    learner.load_state_dict(state)
    return learner.eval()


def wrapped(learner: Learner) -> rade.RADE:
    """The trained model as one that predicts on the graph as it is."""
    net = learner.net.wrapped if isinstance(learner.net, rade.RADE) else learner.net
    return rade.RADE(net, rule=rade.Constant(0.0, 0.0)).eval()


class Judge:
    """Scores of one model on one corrupted graph."""

    def __init__(self, task: Task, model: rade.RADE, seed: int) -> None:
        self.task, self.model, self.split = task, model, task.dataset.split(run=seed)

    @torch.no_grad()
    def outputs(self, graph: rade.Graph, inference: rade.Inference) -> Tensor:
        return self.model.by(inference)(self.task.x, graph)

    def score(self, logits: Tensor) -> dict[str, float]:
        rows, y = self.split.test, self.task.y
        accuracy = 100 * float((logits.argmax(1) == y)[rows].float().mean())
        return {"accuracy": round(accuracy, 3), "loss": round(float(F.cross_entropy(logits[rows], y[rows])), 4)}

    def validation(self, logits: Tensor) -> float:
        return float((logits.argmax(1) == self.task.y)[self.split.val].float().mean())


def ways(judge: Judge, noisy: rade.Graph, corruption: Corruption) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every way to predict, with its score."""
    task, share, drop = judge.task, corruption.share, corruption.drop
    yield "plain", judge.score(judge.outputs(noisy, rade.Expected()))
    for name, factor in (("known", 1.0), ("half", 0.5), ("double", 2.0)):
        rates = rates_of(noisy, min(share * factor, 0.95), min(drop * factor, 0.95))
        yield name, judge.score(judge.outputs(noisy, rade.Denoised(rates)))
    evidence = EdgeEvidence.of(noisy, task.x, torch.Generator().manual_seed(0))
    exact = rade.Denoised(rates_of(noisy, share, drop), evidence.trust(share))
    yield "edges", judge.score(judge.outputs(noisy, exact))
    for name, by_edge in (("estimated", True), ("estimated-mean", False)):
        rows = judge.split.val
        found = rade.estimate_noise(
            judge.model, task.x, noisy, labels=task.y, rows=rows, shares=SHARES, by_edge=by_edge
        )
        chosen = {"share": found.chosen.share, "interval": found.interval, "by_edge": found.chosen.by_edge}
        yield name, judge.score(judge.outputs(noisy, found.inference)) | chosen | {"similar": found.similar}
    yield "pruned", judge.score(pruned(judge, noisy))


def pruned(judge: Judge, noisy: rade.Graph) -> Tensor:
    """The usual defence: the least similar edges are cut, the share by validation accuracy."""
    near = cosine(judge.task.x, noisy.edge_index)
    order = near.sort().values

    def logits(share: float) -> Tensor:
        kept = near >= order[int(share * (len(order) - 1))]
        graph = rade.Graph.from_edge_index(noisy.edge_index[:, kept], noisy.num_nodes)
        return judge.outputs(graph, rade.Expected())

    return max((logits(share) for share in SHARES), key=judge.validation)


def run(task: Task, job: Job, corruptions: list[str], write: Callable[[dict[str, Any]], None]) -> None:
    """Train one model and write a line for each corruption."""
    model = wrapped(trained(task, job))
    judge = Judge(task, model, job.seed)
    for name in corruptions:
        value = CORRUPTIONS[name]
        noisy = Corruption(value.drop, value.add, job.seed).of(task.graph)
        found = dict(ways(judge, noisy, value))
        write({**vars(job), "corruption": name, "share": value.share, "drop": value.drop, "scores": found})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", default="cora,citeseer")
    arguments.add_argument("--backbone", default="gcn")
    arguments.add_argument("--method", default="none,dropout,drop-edge,rade-of")
    arguments.add_argument("--corruption", default=",".join(CORRUPTIONS))
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--first", type=int, default=200)
    arguments.add_argument("--out", type=Path, required=True)
    asked = arguments.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    lines = asked.out.read_text("utf-8").splitlines() if asked.out.exists() else []
    done = {tuple(row[key] for key in KEY) for row in map(json.loads, lines)}
    origin = {"commit": commit(), "versions": dict(versions())}
    with asked.out.open("a", encoding="utf-8") as file:
        for dataset in asked.dataset.split(","):
            task, seeds = Task.of(dataset), range(asked.first, asked.first + asked.seeds)
            for seed, backbone, method in product(seeds, asked.backbone.split(","), asked.method.split(",")):
                job = Job(dataset, backbone, method, seed)
                left = [name for name in asked.corruption.split(",") if (*vars(job).values(), name) not in done]
                if left:
                    run(task, job, left, lambda row: print(json.dumps(row | origin), file=file, flush=True))


if __name__ == "__main__":
    main()
