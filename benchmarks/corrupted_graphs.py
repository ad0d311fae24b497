"""Models trained on a clean or a corrupted graph and tested on corrupted ones: one JSON line per model and graph.

    RADE_DATA=data python benchmarks/corrupted_graphs.py --dataset cora --backbone gcn --method none,rade-of \
        --seeds 5 --out table.jsonl
    RADE_DATA=data python benchmarks/corrupted_graphs.py --dataset cs --method none --trained noisy \
        --corruption add100 --out table.jsonl

One training per (data set, backbone, method, seed), then every corrupted graph and every way to predict by evaluation
passes of that model (`predictions.py` has the ways). What is in the file already is not computed again; a way that is
new is added by a line of its own. For a seed all methods and backbones share split, first weights (of a backbone) and
corrupted graphs.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from cases import Case, Task
from competitors import cut
from predictions import SHARES, WAYS, Judge
from torch_geometric.data import Data

import rade
from rade.noise import rates_of
from rade.noise.guesses import paired_gain
from rade.train.backbones import Backbone, build_backbone
from rade.train.learner import BackboneLearner, Context, Learner, Step
from rade.train.methods import make
from rade.train.record import commit, versions
from rade.train.stages import Corruption

CORRUPTIONS = {
    "clean": Corruption(), "add10": Corruption(add=0.1), "add30": Corruption(add=0.3), "add100": Corruption(add=1.0),
    "add200": Corruption(add=2.0), "drop30": Corruption(drop=0.3), "drop60": Corruption(drop=0.6),
    "mix50": Corruption(drop=0.5, add=0.5),
}  # fmt: skip
# Epochs and width; shorter than the paper's protocol, the best validation epoch is taken.
TRAINING = {"cs": (50, 64), "computer": (80, 64), "pubmed": (100, 64), "physics": (50, 64)}
OTHERS = (80, 128)
LEARNING_RATE = 0.01
TRAINED = tuple(
    f"trained-{what}"
    for what in ("known", "half", "double", "estimated", "edges", "edges-common", "cut", "cut-common", "found")
)
KEY = ("dataset", "backbone", "method", "trained", "seed", "corruption")


@dataclass(frozen=True)
class Job:
    """Which model: all that one training needs."""

    dataset: str
    backbone: str
    method: str
    trained: str  # on which graph: "clean" or "noisy"
    seed: int


@dataclass
class Graphs:
    """The corrupted graphs of one data set and seed, with what is found out about them."""

    task: Task
    seed: int
    folder: Path | None
    kept: dict[str, Case] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Case:
        if name not in self.kept:
            value = CORRUPTIONS[name]
            corruption = Corruption(value.drop, value.add, self.seed)
            self.kept[name] = Case(self.task, corruption, corruption.of(self.task.graph), self.folder)
        return self.kept[name]


def method_of(name: str, noise: rade.Denoised | None) -> Any:
    """A training method by name; one that knows the noise of its graph is RADE at rates 0."""
    return make(name) if noise is None else replace(make("rade-of-fixed", p=0.0, rho=0.0), noise=noise)


def trained(task: Task, job: Job, graph: rade.Graph, noise: rade.Denoised | None = None) -> Learner:
    """The weights of the best validation epoch on a graph; all methods with the same number of epochs."""
    epochs, width = TRAINING.get(task.name, OTHERS)
    torch.manual_seed(job.seed)
    net = build_backbone(job.backbone, task.dataset.features, width, task.dataset.classes)
    context = Context(torch.Generator().manual_seed(job.seed), graph.density, task.dataset.loss, "none")
    method, split = method_of(job.method, noise), task.dataset.split(run=job.seed)
    learner = BackboneLearner(method.around(net, context), context.generator, method)
    rows, loss = split.train, lambda logits: F.cross_entropy(logits, task.y[split.train])
    step = Step(Data(x=task.x, num_nodes=graph.num_nodes), task.y[rows], rows, whole=graph)
    everything = replace(step, rows=None)
    optimizer, best, state = torch.optim.Adam(learner.parameters(), LEARNING_RATE), -1.0, {}
    for epoch in range(epochs):
        learner.train()
        optimizer.zero_grad()
        loss(learner(step)).backward()
        optimizer.step()
        if learner.adapts_after(True):
            learner.adapt(step, loss)
        if epoch % 2 == 0 and epoch < epochs // 2:
            continue  # the best epoch is late: fewer evaluations before
        learner.eval()
        with torch.no_grad():
            right = learner(everything).argmax(1) == task.y
        if (score := float(right[split.val].float().mean())) > best:
            best, state = score, deepcopy(learner.state_dict())
    learner.load_state_dict(state)
    return learner.eval()


def wrapped(learner: Learner) -> rade.RADE:
    """The trained model as one that predicts on the graph as it is; RADE-OFS keeps its expected additions."""
    net = learner.net
    if isinstance(net, rade.RADE) and net.variant.keeps_additions:
        return net.eval()
    inner = next(part for part in net.modules() if isinstance(part, Backbone))
    return rade.RADE(inner, rule=rade.Constant(0.0, 0.0)).eval()


def on_clean(task: Task, job: Job, left: "Left", graphs: Graphs) -> Iterator[dict[str, Any]]:
    """Train one model and judge it on every corruption."""
    started = time.process_time()
    judge = Judge(task, wrapped(trained(task, job, task.graph)), job.seed)
    seconds = time.process_time() - started
    for name, ways in left.items():
        yield line(job, name, graphs[name], judge.scores(graphs[name], ways), seconds)


def on_noisy(task: Task, job: Job, left: "Left", graphs: Graphs) -> Iterator[dict[str, Any]]:
    """Train on the corrupted graph itself: plainly, and with its noise known, wrong or estimated."""
    for name, ways in left.items():
        case, started = graphs[name], time.process_time()
        judge = Judge(task, wrapped(trained(task, job, case.graph)), job.seed)
        seconds = time.process_time() - started
        scores = judge.scores(case, ways)
        if "trained-found" in ways:
            scores["trained-found"] = found_by_training(task, job, case, judge)
        for way in set(ways) & set(TRAINED) - {"trained-found"}:
            graph, noise = told(case, way.removeprefix("trained-"), scores)
            learner = trained(task, job, graph, noise)
            with torch.no_grad():
                scores[way] = judge.score(learner(task.x, graph))
        yield line(job, name, case, {way: scores[way] for way in ways if way in scores}, seconds)


def found_by_training(task: Task, job: Job, case: Case, judge: Judge) -> dict[str, Any]:
    """As `rade train --noise auto`, but for degrees: the plain model's best guess for each kind of trust, tried."""
    rows, y, graph = judge.split.val, task.y, case.graph
    guesses = rade.estimate_noise(
        judge.model, task.x, graph, labels=y, rows=rows, by_edge=[case.features, case.common]
    ).worth_training
    models = [trained(task, job, graph, guess.inference) for guess in guesses]
    plain = judge.outputs(graph, rade.Expected())
    with torch.no_grad():
        tried = [(guess.candidate, model(task.x, graph)) for guess, model in zip(guesses, models)]
    right = [(logits.argmax(1) == y)[rows].float() for logits in (plain, *(logits for _, logits in tried))]
    best = max(range(len(tried)), key=lambda one: float(right[one + 1].mean()))
    gain, error = paired_gain(right[best + 1], right[0])
    if gain <= error:
        return judge.score(plain) | {"share": 0.0, "by": ""}
    candidate, logits = tried[best]
    return judge.score(logits) | {"share": candidate.share, "by": candidate.by}


def told(case: Case, what: str, scores: dict[str, Any]) -> tuple[rade.Graph, rade.Denoised | None]:
    """The graph and the noise that a training is given: the true share of it, wrong ones, that of a plain model, trust
    in single edges; or as competitor the graph without the true share of edges whose ends are least similar.
    """
    share, drop = case.corruption.share, case.corruption.drop
    if what in ("cut", "cut-common"):
        return cut(case.near[what], case.graph, share), None
    if what in ("edges", "edges-common"):
        evidence = case.features if what == "edges" else case.common
        return case.graph, rade.Denoised(rates_of(case.graph, share, drop), evidence.trust(share))
    shares = {"known": share, "half": share / 2, "double": min(2 * share, 0.95)}
    value = scores["estimated-mean"]["share"] if what == "estimated" else shares[what]
    return case.graph, rade.Denoised(rates_of(case.graph, value, drop))


def line(job: Job, name: str, case: Case, scores: dict[str, Any], seconds: float) -> dict[str, Any]:
    value, (epochs, width) = case.corruption, TRAINING.get(job.dataset, OTHERS)
    told = {"corruption": name, "share": value.share, "drop": value.drop, "epochs": epochs, "width": width}
    return {**vars(job), **told, "shares": SHARES, "seconds": round(seconds, 1), "scores": scores}


Done = dict[tuple[Any, ...], set[str]]  # the ways that were tried, by what `KEY` names
Left = dict[str, tuple[str, ...]]  # those to try, by corruption


def finished(path: Path) -> Done:
    """What a file holds: a way that was asked for and does not exist, like a low-rank GAT, counts as tried."""
    found: Done = defaultdict(set)
    for row in map(json.loads, path.read_text("utf-8").splitlines() if path.exists() else ()):
        found[tuple(row[key] for key in KEY)] |= {*row.get("ways", ()), *row["scores"]}
    return found


def jobs(asked: argparse.Namespace, done: Done) -> Iterator[tuple[Task, Job, Left, Graphs]]:
    """What is left to do, the data set and the graphs of a seed loaded once."""
    ways = set((asked.ways or ",".join((*WAYS, *(TRAINED if asked.trained == "noisy" else ())))).split(","))
    for dataset in asked.dataset.split(","):
        task = Task.of(dataset)
        for seed in range(asked.first, asked.first + asked.seeds):
            graphs = Graphs(task, seed, asked.cache)
            for backbone, method in product(asked.backbone.split(","), asked.method.split(",")):
                job = Job(dataset, backbone, method, asked.trained, seed)
                left = {}
                for name in asked.corruption.split(","):
                    tried = done.get((*vars(job).values(), name), set())
                    if new := ways - tried:
                        left[name] = tuple(way for way in (*WAYS, *TRAINED) if way in new or way == "plain")
                if left:
                    yield task, job, left, graphs


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", default="cora,citeseer")
    arguments.add_argument("--backbone", default="gcn")
    arguments.add_argument("--method", default="none,dropout,drop-edge,rade-of,rade-ofs")
    arguments.add_argument("--trained", choices=("clean", "noisy"), default="clean")
    arguments.add_argument("--corruption", default=",".join(CORRUPTIONS))
    arguments.add_argument("--ways", help="which ways to predict, plain among them; all by default")
    arguments.add_argument("--epochs", type=int, help="of all trainings, in place of each data set's own")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--first", type=int, default=200)
    arguments.add_argument("--cache", type=Path, help="folder for what depends on a corrupted graph alone")
    arguments.add_argument("--out", type=Path, required=True)
    asked = arguments.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    if asked.epochs:
        TRAINING.update({name: (asked.epochs, TRAINING.get(name, OTHERS)[1]) for name in asked.dataset.split(",")})
    done, origin = finished(asked.out), {"commit": commit(), "versions": dict(versions())}
    run: Callable[..., Iterator[dict[str, Any]]] = on_clean if asked.trained == "clean" else on_noisy
    with asked.out.open("a", encoding="utf-8") as file:
        for task, job, left, graphs in jobs(asked, done):
            for row in run(task, job, left, graphs):
                print(json.dumps(row | {"ways": left[row["corruption"]]} | origin), file=file, flush=True)


if __name__ == "__main__":
    main()
