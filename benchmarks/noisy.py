"""Models trained on a clean or a corrupted graph and tested on corrupted ones: one JSON line per model and graph.

    python -m benchmarks.noisy --dataset cora --backbone gcn --method none,rade-of --seeds 5 --out table.jsonl
    python -m benchmarks.noisy --dataset cs --method none --trained noisy --corruption add100 --out table.jsonl
    python -m benchmarks.noisy --dataset cora-meta-0.25 --corruption clean --mirror DIR --out attacked.jsonl
    python -m benchmarks.noisy --cost --dataset computer,cs,cora --backbone gcn,sage,gin --out cost.jsonl

One training per (data set, backbone, method, seed), then every corrupted graph and every way to predict by evaluation
passes of that model. For a seed all methods and backbones share split, first weights (of a backbone) and corrupted
graphs. What is in the file already is not computed again. `draw_noisy.py` makes the tables of what is in results/.

- `plain`; `known`, `half`, `double`: mean of spurious edges taken off, at the true share or a wrong one;
- `edges`: the true share, edges trusted by the similarity of raw features;
- `estimated-mean`, `estimated`: by `rade.estimate_noise` on the validation labels, without trust in single edges and
  with trust by raw features;
- `cut`: the least similar edges cut by raw features, the share by validation accuracy;
- `trained-…`: trained on the corrupted graph with its noise known, wrong, estimated, or cut.

GRAPH-meta-R and GRAPH-nettack-K are graphs that Metattack or Nettack changed (files of ChandlerBang/Pro-GNN, clean
graphs of danielzuegner/gnn-meta-attack, below `adversarial/` of a mirror); strength 0 is the clean one. `--cost` times
passes: CPU time of denoised ones over plain ones that take turns, lower quartiles.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from benchmarks.study import add, fit, lines
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn
from torch_geometric.data import Data

import rade
from rade.data import FixedSplit, Split
from rade.data.tensors import clean_edges
from rade.noise import FeatureEvidence
from rade.train.backbones import Backbone, build_backbone
from rade.train.learner import BackboneLearner, Context, Learner, Method, Step
from rade.train.methods import make


@dataclass(frozen=True)
class Corruption:
    """``drop`` of all edges are lost, and ``add`` times as many spurious ones appear between random nodes."""

    drop: float = 0.0
    add: float = 0.0
    seed: int = 0

    @property
    def share(self) -> float:
        """The share of spurious edges among those observed."""
        return self.add / (self.add + 1.0 - self.drop)

    def of(self, graph: rade.Graph) -> rade.Graph:
        rates = rade.Rates(self.drop, min(self.add * graph.num_edges / max(graph.num_nonedges, 1), 1.0))
        view = rade.sample_view(graph, rates, torch.Generator().manual_seed(self.seed))
        return rade.Graph.from_edge_index(view.edge_index, graph.num_nodes)


CORRUPTIONS = {
    "clean": Corruption(), "add10": Corruption(add=0.1), "add30": Corruption(add=0.3), "add100": Corruption(add=1.0),
    "add200": Corruption(add=2.0), "drop30": Corruption(drop=0.3), "drop60": Corruption(drop=0.6),
    "mix50": Corruption(drop=0.5, add=0.5),
}  # fmt: skip
# Epochs and width; shorter than the paper's protocol, the best validation epoch is taken.
TRAINING = {"cs": (50, 64), "computer": (80, 64), "pubmed": (100, 64), "physics": (50, 64)}
OTHERS = (80, 128)
# Rows of some data sets sum to 1 and learn slowly as they are: features are multiplied.
FACTOR = {"cs": 8.0, "computer": 16.0, "pubmed": 8.0, "physics": 8.0}
SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
TOLD = ("known", "half", "double", "estimated", "edges", "cut")
KEY = ("dataset", "backbone", "method", "trained", "seed", "corruption")


def rates_of(graph: rade.Graph, share: float, drop: float = 0.0) -> rade.Rates:
    """The rates that make ``share`` of the observed edges spurious, where ``drop`` of the real ones are missing."""
    clean = graph.num_edges * (1.0 - share) / (1.0 - drop)
    return rade.Rates(drop, min(share * graph.num_edges / max(graph.num_pairs - clean, 1.0), 1.0))


@dataclass(frozen=True)
class Task:
    """A node-level data set ready for training."""

    name: str
    x: Tensor  # sparse CSR
    y: Tensor
    graph: rade.Graph
    classes: int
    split: Callable[[int], Split]

    @staticmethod
    def of(name: str, mirror: Path | None) -> Task:
        if "-meta-" in name or "-nettack-" in name:
            return attacked(name, mirror or rade.data.data_root())
        dataset = rade.data.load(name)
        data = dataset.graphs[0]
        x = data.x if data.x.layout != torch.strided else data.x.to_sparse_csr()
        values = x.values() * FACTOR.get(name, 1.0)
        x = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
        graph = rade.Graph.from_edge_index(data.edge_index, x.shape[0])
        return Task(name, x, data.y, graph, dataset.classes, lambda seed: dataset.split(run=seed))

    def similarity(self, graph: rade.Graph) -> Tensor:
        """The cosine of the raw features of the ends of each edge."""
        unit, (source, target) = F.normalize(self.x.to_dense(), dim=1), graph.edge_index
        parts = zip(source.split(100_000), target.split(100_000))
        return torch.cat([(unit[one] * unit[other]).sum(1) for one, other in parts])


def attacked(name: str, mirror: Path) -> Task:
    """A perturbed graph with features and labels of the clean one's largest component; PubMed is whole."""
    base, kind, strength = name.rsplit("-", 2)
    base, folder = base.replace("-", "_"), mirror / "adversarial"
    if base == "pubmed":
        clean = Task.of("pubmed", None)
        x, y, edges = clean.x, clean.y, clean.graph.edge_index
    else:
        x, y, edges = largest_component(folder / "clean" / f"{base}.npz")
    if float(strength) > 0:
        text = strength if kind == "meta" else f"{strength}.0"
        with np.load(folder / kind / f"{base}_{kind}_adj_{text}.npz", allow_pickle=False) as arrays:
            source = np.repeat(np.arange(len(y)), np.diff(arrays["indptr"]))
            edges = clean_edges(source, arrays["indices"].astype(np.int64), len(y))
    file = f"nettack/{base}_nettacked_nodes.json" if kind == "nettack" else f"splits/{base}_prognn_splits.json"
    nodes = {part: torch.tensor(index).sort().values for part, index in json.loads((folder / file).read_text()).items()}
    # Nettack changes the graph around some test nodes only: they alone are the test part.
    split = FixedSplit(Split(nodes["idx_train"], nodes["idx_val"], nodes.get("attacked_test_nodes", nodes["idx_test"])))
    return Task(name, x, y, rade.Graph.from_edge_index(edges, len(y)), int(y.max()) + 1, split.split)


def largest_component(path: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Features (the identity where there are none), labels and edges, in the order of the nodes."""
    with np.load(path, allow_pickle=False) as file:  # some of the arrays are objects, and stay closed
        arrays = {key: file[key] for key in file.files if key.startswith(("adj_", "attr_")) or key == "labels"}
    matrices = {
        kind: sp.csr_matrix(tuple(arrays[f"{kind}_{part}"] for part in ("data", "indices", "indptr")), tuple(shape))
        for kind in ("adj", "attr")
        if (shape := arrays.get(f"{kind}_shape")) is not None
    }
    owner = connected_components(matrices["adj"], directed=False)[1]
    kept = np.flatnonzero(owner == np.bincount(owner).argmax())
    pairs = matrices["adj"][kept][:, kept].tocoo()
    edges = clean_edges(pairs.row.astype(np.int64), pairs.col.astype(np.int64), len(kept))
    x = matrices["attr"][kept] if "attr" in matrices else sp.identity(len(kept), format="csr")
    dense = torch.from_numpy(x.toarray().astype(np.float32))
    return dense.to_sparse_csr(), torch.from_numpy(arrays["labels"][kept].astype(np.int64)), edges


@dataclass(frozen=True)
class Case:
    """A corrupted graph and what all models may use about it."""

    task: Task
    corruption: Corruption
    graph: rade.Graph

    @cached_property
    def evidence(self) -> FeatureEvidence:
        return FeatureEvidence.of(self.graph, self.task.x)

    @cached_property
    def near(self) -> Tensor:
        return self.task.similarity(self.graph)


def cut(near: Tensor, graph: rade.Graph, share: float) -> rade.Graph:
    """The graph without the share of edges whose ends are least similar; near [E] in its order.

    Edges whose ends have nothing in common are cut together, though they be more than the share.
    """
    bound = near.sort().values[int(share * (len(near) - 1))]
    kept = near > bound if bool(bound == near.min()) else near >= bound
    return rade.Graph.from_edge_index(graph.edge_index[:, kept], graph.num_nodes)


@dataclass(frozen=True)
class Job:
    """Which model: all that one training needs."""

    dataset: str
    backbone: str
    method: str
    trained: str  # on which graph: "clean" or "noisy"
    seed: int


@dataclass(frozen=True)
class Told(Method):
    """A training that knows the noise of its graph: RADE at rates 0."""

    noise: rade.Denoised

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        rule, density, generator = rade.Constant(0.0, 0.0), context.density, context.generator
        return rade.RADE(net, rule=rule, noise=self.noise, density=density, generator=generator)


def trained(task: Task, job: Job, graph: rade.Graph, noise: rade.Denoised | None = None) -> Learner:
    """The weights of the best validation epoch."""
    epochs, width = TRAINING.get(task.name, OTHERS)
    torch.manual_seed(job.seed)
    net = build_backbone(job.backbone, task.x.shape[1], width, task.classes)
    context = Context(torch.Generator().manual_seed(job.seed), graph.density, "multiclass", "none")
    method, split = make(job.method) if noise is None else Told(noise), task.split(job.seed)
    learner = BackboneLearner(method.around(net, context), context.generator, method)
    rows = split.train
    step = Step(Data(x=task.x, num_nodes=graph.num_nodes), task.y[rows], rows, whole=graph)
    optimizer, best, state = torch.optim.Adam(learner.parameters(), 0.01), -1.0, {}

    def losses() -> Iterator[Tensor]:
        yield F.cross_entropy(learner(step), step.labels)
        if learner.adapts_after(True):
            learner.adapt(step, lambda logits: F.cross_entropy(logits, step.labels))

    for epoch in fit(learner, optimizer, losses, epochs):
        if epoch % 2 == 0 and epoch < epochs // 2:
            continue  # the best epoch is late: fewer evaluations before
        with torch.no_grad():
            right = learner(replace(step, rows=None)).argmax(1) == task.y
        if (score := float(right[split.val].float().mean())) > best:
            best, state = score, deepcopy(learner.state_dict())
    learner.load_state_dict(state)
    return learner.eval()


class Judge:
    """Scores of one model on corrupted graphs."""

    def __init__(self, task: Task, learner: Learner, seed: int) -> None:
        self.task, self.split, net = task, task.split(seed), learner.net
        # As one that predicts on the graph as it is; RADE-OFS keeps its expected additions.
        if isinstance(net, rade.RADE) and net.rade.variant.keeps_additions:
            self.model = net.eval()
        else:
            inner = next(part for part in net.modules() if isinstance(part, Backbone))
            self.model = rade.RADE(inner, rule=rade.Constant(0.0, 0.0)).eval()

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

    def scores(self, case: Case) -> dict[str, dict[str, Any]]:
        """By way to predict."""
        graph, share, drop = case.graph, case.corruption.share, case.corruption.drop
        found = {"plain": self.score(self.outputs(graph, rade.Expected()))}
        for name, factor in (("known", 1.0), ("half", 0.5), ("double", 2.0)):
            rates = rates_of(graph, min(share * factor, 0.95), min(drop * factor, 0.95))
            found[name] = self.score(self.outputs(graph, rade.Denoised(rates)))
        trusting = rade.Denoised(rates_of(graph, share, drop), case.evidence.trust(share))
        found["edges"] = self.score(self.outputs(graph, trusting))
        for name, by_edge in (("estimated-mean", False), ("estimated", True)):
            x, y, val = self.task.x, self.task.y, self.split.val
            estimate = rade.estimate_noise(self.model, x, graph, labels=y, rows=val, shares=SHARES, by_edge=by_edge)
            by = "features" if estimate.chosen.evidence else ""
            told = {"share": estimate.chosen.share, "interval": estimate.interval, "by": by}
            found[name] = self.score(self.outputs(graph, estimate.inference)) | told
        graphs = [graph if one == 0.0 else cut(case.near, graph, one) for one in SHARES]
        logits = [self.outputs(one, rade.Expected()) for one in graphs]
        chosen = max(range(len(SHARES)), key=lambda k: self.validation(logits[k]))
        return found | {"cut": self.score(logits[chosen]) | {"share": SHARES[chosen]}}


def told(case: Case, what: str, scores: dict[str, Any]) -> tuple[rade.Graph, rade.Denoised | None]:
    """The graph and the noise that a training is given; as competitor the graph without the least similar edges."""
    share, drop = case.corruption.share, case.corruption.drop
    if what == "cut":
        return cut(case.near, case.graph, share), None
    if what == "edges":
        return case.graph, rade.Denoised(rates_of(case.graph, share, drop), case.evidence.trust(share))
    shares = {"known": share, "half": share / 2, "double": min(2 * share, 0.95)}
    value = scores["estimated-mean"]["share"] if what == "estimated" else shares[what]
    return case.graph, rade.Denoised(rates_of(case.graph, value, drop))


def run(task: Task, job: Job, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    """The lines of one model, or, trained on corrupted graphs, of one model for each of them."""
    judge = None
    for name, case in cases.items():
        started, noisy = time.process_time(), job.trained == "noisy"
        if judge is None or noisy:
            judge = Judge(task, trained(task, job, case.graph if noisy else task.graph), job.seed)
        seconds, scores = time.process_time() - started, judge.scores(case)
        for what in TOLD if noisy else ():
            graph, noise = told(case, what, scores)
            learner = trained(task, job, graph, noise)
            with torch.no_grad():
                scores[f"trained-{what}"] = judge.score(learner.net(task.x, graph))
        epochs, width = TRAINING.get(job.dataset, OTHERS)
        facts = {"corruption": name, "share": case.corruption.share, "drop": case.corruption.drop}
        facts |= {"epochs": epochs, "width": width, "shares": SHARES, "seconds": round(seconds, 1)}
        yield {**vars(job), **facts, "scores": scores}


@torch.no_grad()
def cost(task: Task, backbone: str, repetitions: int = 21) -> dict[str, Any]:
    """On a graph in which every second edge is spurious; ``first``: the pass at new rates, which builds an operator."""
    torch.manual_seed(0)
    net = build_backbone(backbone, task.x.shape[1], TRAINING.get(task.name, OTHERS)[1], task.classes)
    model = rade.RADE(net, rule=rade.Constant(0.0, 0.0)).eval()
    graph = Corruption(add=1.0, seed=0).of(task.graph)
    rates, case = rates_of(graph, 0.5), Case(task, Corruption(add=1.0), graph)
    trusting = rade.Denoised(rates, case.evidence.trust(0.5))
    ways = {"plain": rade.Expected(), "denoised": rade.Denoised(rates), "edges": trusting}

    def seconds(name: str) -> float:
        started = time.process_time()
        model.by(ways[name])(task.x, graph)
        return time.process_time() - started

    seconds("plain")
    first = {name: seconds(name) for name in ways}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repetitions + 1):
        for name in list(ways) if turn % 2 else reversed(ways):
            times[name].append(seconds(name))
    low = {name: quantiles(found[1:], n=4)[0] for name, found in times.items()}
    ratios = {name: round(low[name] / low["plain"], 3) for name in ("denoised", "edges")}
    plain = {"plain_ms": round(1000 * low["plain"], 2), "first": round(first["denoised"] / low["plain"], 1)}
    return {"dataset": task.name, "backbone": backbone, **ratios, **plain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cora,citeseer")
    parser.add_argument("--backbone", default="gcn")
    parser.add_argument("--method", default="none,dropout,drop-edge,rade-of,rade-ofs")
    parser.add_argument("--trained", choices=("clean", "noisy"), default="clean")
    parser.add_argument("--corruption", default=",".join(CORRUPTIONS))
    parser.add_argument("--epochs", type=int, help="of all trainings, in place of each data set's own")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=200)
    parser.add_argument("--mirror", type=Path, help="the folder that holds adversarial/; the data folder by default")
    parser.add_argument("--cost", action="store_true", help="time passes instead of training")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    done = {tuple(row.get(key) for key in KEY) for row in lines(asked.out)}
    for name in asked.dataset.split(","):
        task = Task.of(name, asked.mirror)
        if asked.epochs:
            TRAINING[name] = (asked.epochs, TRAINING.get(name, OTHERS)[1])
        if asked.cost:
            torch.set_num_threads(1)
            for backbone in asked.backbone.split(","):
                add(asked.out, cost(task, backbone))
            continue
        for seed in range(asked.first, asked.first + asked.seeds):
            made = {name: replace(CORRUPTIONS[name], seed=seed) for name in asked.corruption.split(",")}
            cases = {name: Case(task, one, one.of(task.graph)) for name, one in made.items()}
            for backbone, method in product(asked.backbone.split(","), asked.method.split(",")):
                job = Job(task.name, backbone, method, asked.trained, seed)
                left = {key: case for key, case in cases.items() if (*vars(job).values(), key) not in done}
                for row in run(task, job, left):
                    add(asked.out, row)


if __name__ == "__main__":
    main()
