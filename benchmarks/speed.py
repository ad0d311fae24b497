"""Speed and memory as ratios: contestants take turns in one run, since seconds do not carry over between machines.

    python -m benchmarks.speed                                  # all but parallel, for half an hour
    python -m benchmarks.speed wrapped --against ../other/src   # RADE(net) in a PyG user's loop, two versions
    python -m benchmarks.speed wrapped --rule gradnorm --data cora,mutag --model gcn,gat
    python -m benchmarks.speed epoch --data cora,cs --authors ../RADE   # `rade train`, PyG's layers, the authors'
    python -m benchmarks.speed sampling inference neighbors scale parallel --json

Times are CPU time (`--wall`: by the clock), medians over turns; run it on an otherwise idle machine. `--quick` takes
toy sizes, to see that everything runs. Data sets are those of `rade.data`; `--data-root` or $RADE_DATA says where.

wrapped    an epoch of a training loop as people write it (dense features, training steps, evaluation pass) with a PyG
           model, with `rade.RADE(net)`, and with the code of another checkout: each in a process of its own, in turns
epoch      an epoch of `rade train`, training, rate step and evaluation, against that loop with PyG's layers
inference  evaluation passes of RADE-OF and RADE-OFS against the model's own
sampling   a view with as many additions as edges at ogbn-arxiv's size against PyG's negative sampling of as many pairs
neighbors  batches of sampled neighborhoods at that size against taking the rows of their features
scale      RADE-OF epochs with rate steps from 10^4 to 10^6 nodes, per edge, and the memory they hold; ogbn-arxiv
parallel   `rade train` on ogbn-arxiv's graph in one process and in two by torchrun, one thread each
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

SOURCE = Path(__file__).resolve().parents[1] / "src"  # the code beside this script is what is measured
MODELS = {"gcn": (pyg.GCN, {}), "sage": (pyg.GraphSAGE, {}), "gin": (pyg.GIN, {}), "gat": (pyg.GAT, {"heads": 4})}
WRAPPED = ("cora", "pubmed", "computer", "mutag", "proteins")
EPOCHS = {
    **{(data, "gcn"): 30 for data in ("cora", "pubmed", "cs", "computer", "physics", "mutag", "proteins")},
    **{(data, "gin"): 10 for data in ("cora", "pubmed", "cs", "computer", "physics")},
    **{(data, "gat"): 10 for data in ("cora", "computer")},
}
METHODS = ("none", "rade-of-fixed", "rade-of", "rade-ofs")
ARXIV = (169_343, 1_157_799)  # nodes and undirected edges
SECONDS = 1.0  # that a loop is measured for in each turn
# Where the authors' script expects the raw files of PyG's data sets.
PLACES = {"cora": "Planetoid/Cora", "pubmed": "Planetoid/Pubmed", "cs": "Coauthor/CS", "computer": "Amazon/Computers"}
PLACES["physics"] = "Coauthor/Physics"


@dataclass(frozen=True)
class Row:
    """One contestant: median seconds, the ratio to another, and further figures."""

    benchmark: str
    name: str
    seconds: float
    against: str = ""
    ratio: float | None = None
    figures: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f", {self.ratio:.3g} x {self.against}"
        figures = "".join(f", {value:,.4g} {unit}" for unit, value in self.figures.items())
        return f"{self.benchmark}: {self.name}: {self.seconds:.3g} s{ratio}{figures}"


def clock(asked: argparse.Namespace) -> Callable[[], float]:
    return time.perf_counter if asked.wall else time.process_time


def in_turns(runs: dict[str, Callable[[], object]], asked: argparse.Namespace) -> dict[str, float]:
    """Median seconds of each; the first turn warms up."""
    now = clock(asked)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(asked.repeats + 1):
        for name, run in runs.items():
            start = now()
            run()
            if turn > 0:
                seconds[name].append(now() - start)
    return {name: median(found) for name, found in seconds.items()}


def per_epoch(command: Callable[[int], list[str]], epochs: int, asked: argparse.Namespace, folder: str) -> float:
    """Two processes of different length: what they share, imports and data and the first epoch, cancels out."""
    spent = []
    for count in (1, 1 + epochs):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = os.environ | {"OMP_NUM_THREADS": str(asked.threads), "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command(count), cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command(count))} failed: {done.stderr.strip()[-500:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        spent.append(time.perf_counter() - start if asked.wall else cpu)
    return max(spent[1] - spent[0], 0.0) / epochs


class Graphs(nn.Module):
    """A PyG model of nodes, their sum, and a linear head."""

    def __init__(self, net: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.net, self.head = net, nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.head(pyg.global_add_pool(self.net(x, edge_index).relu(), batch))


class Loop:
    """A training loop as people write it: dense features, whole graph or batches, evaluation after every epoch."""

    def __init__(self, data: dict[str, Any], model: str, width: int, rule: str | None) -> None:
        torch.manual_seed(0)
        kind, options = MODELS[model]
        features, classes = data["graphs"][0][0].shape[1], data["classes"]
        graphs = [Data(x=x, edge_index=edge_index, y=y) for x, edge_index, y in data["graphs"]]
        self.train = data["train"]
        if data["level"] == "node":
            net: nn.Module = kind(features, width, 2, classes, **options)
            self.whole, self.batches = graphs[0], None
        else:
            net = Graphs(kind(features, width, 3, width, **options), width, classes)
            parts = [[graphs[k] for k in data[part].tolist()] for part in ("train", "val")]
            self.batches = [DataLoader(part, 64, shuffle=k == 0) for k, part in enumerate(parts)]
        self.optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        self.model = net if rule is None else self.wrapped(net, rule)

    def wrapped(self, net: nn.Module, rule: str) -> nn.Module:
        import rade

        if rule == "constant":
            return rade.RADE(net)
        readout = rade.Readout(pool="sum" if self.batches else None)
        return rade.RADE(net, rule=rade.GradNorm(), readout=readout).follow(self.optimizer)

    def step(self, rows: Any, y: Tensor, *inputs: Tensor) -> None:
        self.model.train()
        self.optimizer.zero_grad()
        cross_entropy(self.model(*inputs)[rows], y[rows]).backward()
        self.optimizer.step()

    def epoch(self) -> None:
        if self.batches is None:
            data = self.whole
            self.step(self.train, data.y, data.x, data.edge_index)
            self.model.eval()
            with torch.no_grad():
                self.model(data.x, data.edge_index)
            return
        for batch in self.batches[0]:
            self.step(slice(None), batch.y, batch.x, batch.edge_index, batch.batch)
        self.model.eval()
        with torch.no_grad():
            for batch in self.batches[1]:
                self.model(batch.x, batch.edge_index, batch.batch)


def work(order: dict[str, Any]) -> None:
    """What a child process does: epochs of several models on one data set, or a given number of one model."""
    torch.set_num_threads(order["threads"])
    warnings.simplefilter("ignore")
    now = time.perf_counter if order["wall"] else time.process_time
    data, found = torch.load(order["file"], weights_only=True), {}
    for model in order["models"]:
        loop = Loop(data, model, order["width"], order["rule"])
        loop.epoch()
        spent: list[float] = []
        while len(spent) < order["epochs"] or (order["seconds"] and sum(spent) < order["seconds"]):
            start = now()
            loop.epoch()
            spent.append(now() - start)
        found[model] = median(spent) if spent else 0.0
    print(json.dumps(found))


def saved(name: str, folder: str, asked: argparse.Namespace) -> Path:
    """A data set as plain dense tensors, which processes with other code can read."""
    from rade.data import load

    dataset = load(name, root=None if name == "csbm" else asked.data_root)
    split = dataset.split(0)
    graphs = [(graph.x.to_dense().float(), graph.edge_index, graph.y) for graph in dataset.graphs]
    content = {"graphs": graphs, "level": dataset.level, "classes": dataset.classes}
    path = Path(folder) / f"{name}.pt"
    torch.save(content | {"train": split.train, "val": split.val}, path)
    return path


def ordered(asked: argparse.Namespace, **order: Any) -> list[str]:
    """The command of a child process."""
    fixed = {"threads": asked.threads, "wall": asked.wall, "seconds": 0.0, "width": 64, "rule": None}
    return [sys.executable, str(Path(__file__).resolve()), "--work", json.dumps(fixed | order)]


def wrapped(asked: argparse.Namespace) -> Iterator[Row]:
    ours, other = f"RADE, {asked.rule}", f"RADE of {asked.against}"
    sides = {"PyG": (None, SOURCE), ours: (asked.rule, SOURCE)}
    if asked.against is not None:
        sides[other] = (asked.rule, asked.against.resolve())
    names = ("csbm",) if asked.quick else tuple(name for name in asked.data or WRAPPED if name in WRAPPED)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = saved(name, folder, asked)
            found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for _ in range(asked.repeats):
                for side, (rule, source) in sides.items():
                    limit = {"epochs": 1 if asked.quick else 3, "seconds": 0.0 if asked.quick else SECONDS}
                    command = ordered(asked, file=str(path), models=asked.model, rule=rule, **limit)
                    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": str(asked.threads)}
                    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                    if done.returncode != 0:
                        raise SystemExit(f"{side} on {name} failed: {done.stderr.strip()[-500:]}")
                    found[side].append(json.loads(done.stdout))
            for model in asked.model:
                times = {side: [turn[model] for turn in found[side]] for side in sides}
                yield from compared("wrapped", f"{model} on {name}", times, ours, "PyG")
                if asked.against is not None:
                    yield from compared("wrapped", f"{model} on {name}", times, ours, other)


def compared(benchmark: str, where: str, found: dict[str, list[float]], one: str, other: str) -> Iterator[Row]:
    """The other alone, then one against it: the median of ratios by turn; none where no time could be told."""
    ratios = [mine / theirs for mine, theirs in zip(found[one], found[other]) if theirs > 0]
    yield Row(benchmark, f"{other}, {where}", median(found[other]))
    yield Row(benchmark, f"{one}, {where}", median(found[one]), other, median(ratios) if ratios else None)


def epoch(asked: argparse.Namespace) -> Iterator[Row]:
    cases = {("csbm", "gcn"): 2} if asked.quick else EPOCHS
    for (name, backbone), epochs in cases.items():
        if asked.data and name not in asked.data and not asked.quick:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, where = saved(name, folder, asked), f"{backbone} on {name}"
            train = ["-m", "rade", "train", "--protocol", "paper", "--runs", "1", "--patience", "0", "--overwrite"]
            train += ["--threads", str(asked.threads), "--dataset", name, "--backbone", backbone, "--out", "out"]
            train += [] if asked.data_root is None else ["--data-root", str(asked.data_root.resolve())]
            runs = {
                "PyG": lambda n: ordered(asked, file=str(path), models=[backbone], epochs=n - 1, width=512),  # noqa: B023
                **{
                    method: lambda n, m=method: [sys.executable, *train, "--method", m, "--epochs", str(n)]  # noqa: B023
                    for method in METHODS
                },
            }
            if asked.authors is not None and name in PLACES:
                runs["the authors' RADE-OF"] = authors(asked, name, backbone, folder)
            seconds = {side: per_epoch(command, epochs, asked, folder) for side, command in runs.items()}
        yield Row("epoch", f"PyG, {where}", seconds.pop("PyG"))
        for side, spent in seconds.items():
            plain = seconds["none"]
            yield Row("epoch", f"{side}, {where}", spent, "none", spent / plain if plain > 0 else None)


def authors(asked: argparse.Namespace, name: str, backbone: str, folder: str) -> Callable[[int], list[str]]:
    """Their full-batch script; raw files are lent to it, and what it writes is thrown away."""
    from rade.data import data_root, resolve

    script = asked.authors / "RADE_Node_Classification" / "full_batch" / "main.py"
    if not script.is_file():
        raise SystemExit(f"{asked.authors} is no checkout of the authors' scripts: it has no {script}")
    place = Path(folder) / PLACES[name]
    place.mkdir(parents=True, exist_ok=True)
    (place / "raw").symlink_to((data_root(asked.data_root) / resolve(name).folder / "raw").resolve())
    options = {"dataset": name, "gnn": backbone, "data_dir": folder, "runs": 1, "patience": 0}
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    return lambda n: [sys.executable, str(script.resolve()), "--cpu", *words, "--epochs", str(n)]


def inference(asked: argparse.Namespace) -> Iterator[Row]:
    import rade

    dataset = rade.data.load("csbm" if asked.quick else "cora", root=None if asked.quick else asked.data_root)
    x, edge_index = dataset.graphs[0].x.to_dense(), dataset.graphs[0].edge_index
    nets = [pyg.GCN(x.shape[1], 512, 2, dataset.classes).eval() for _ in range(3)]
    models = {
        "plain": nets[0],
        "RADE-OF": rade.RADE(nets[1], "of").eval(),
        "RADE-OFS": rade.RADE(nets[2], "ofs").eval(),
    }
    with torch.no_grad():
        seconds = in_turns({name: lambda m=model: m(x, edge_index) for name, model in models.items()}, asked)
    for name, spent in seconds.items():
        yield Row("inference", name, spent, "plain", spent / seconds["plain"])


def random_edges(nodes: int, edges: int) -> Tensor:
    """As many different pairs at random, in both directions."""
    source = torch.Generator().manual_seed(0)
    pairs = torch.randint(nodes, (2, int(1.02 * edges) + 10), generator=source)
    low, high = pairs.min(0).values, pairs.max(0).values
    keys = torch.unique((low * nodes + high)[low != high])[:edges]
    pairs = torch.stack([keys // nodes, keys % nodes])
    return torch.cat([pairs, pairs.flip(0)], 1)


def sampling(asked: argparse.Namespace) -> Iterator[Row]:
    from torch_geometric.utils import negative_sampling

    import rade

    nodes, edges = (2_000, 10_000) if asked.quick else ARXIV
    edge_index, generator = random_edges(nodes, edges), torch.Generator().manual_seed(0)
    graph = rade.Graph.from_edge_index(edge_index, nodes)
    rates = rade.Rates(0.5, graph.density)
    runs = {
        "PyG negative_sampling": lambda: negative_sampling(edge_index, nodes, edges, method="sparse"),
        "view": lambda: rade.sample_view(graph, rates, generator),
    }
    found = {name: [seconds] for name, seconds in in_turns(runs, asked).items()}
    yield from compared("sampling", f"{edges:,} edges", found, "view", "PyG negative_sampling")


def neighbors(asked: argparse.Namespace) -> Iterator[Row]:
    from rade.data import NeighborLoader

    nodes, edges = (2_000, 10_000) if asked.quick else ARXIV
    data = Data(x=torch.rand(nodes, 128), edge_index=random_edges(nodes, edges), num_nodes=nodes)
    now, seeds = clock(asked), 64 if asked.quick else 1_024
    spent: dict[str, list[float]] = {"a batch": [], "taking its features": []}
    batches = iter(NeighborLoader(data, (15, 10, 5), seeds, shuffle=True))
    for _ in range(4 * asked.repeats):
        start = now()
        batch = next(batches)
        middle = now()
        data.x.index_select(0, batch.n_id)
        spent["a batch"].append(middle - start)
        spent["taking its features"].append(max(now() - middle, 1e-9))
    where = f"{seeds:,} seeds, fan-outs 15, 10, 5"
    yield from compared("neighbors", where, spent, "a batch", "taking its features")


def scale(asked: argparse.Namespace) -> Iterator[Row]:
    first = None
    for nodes in (500, 1_000) if asked.quick else (10**4, 10**5, 10**6):
        data = made_up(random_edges(nodes, 5 * nodes), nodes, 64)
        loop = Loop(data, "gcn", 64, "gradnorm")
        seconds = in_turns({"epoch": loop.epoch}, asked)["epoch"] / (5 * nodes)
        first = seconds if first is None else first
        figures = {"bytes held per edge": peak_bytes(loop.epoch) / (5 * nodes), "GiB resident at most": resident()}
        ratio = seconds / first
        yield Row("scale", f"n = {nodes:,}, per edge", seconds, "per edge of the smallest", ratio, figures)
    if not asked.quick:
        yield from citations(asked)


def citations(asked: argparse.Namespace) -> Iterator[Row]:
    """ogbn-arxiv: whole, and in sampled neighborhoods."""
    from rade.data import NeighborLoader, load

    dataset = load("ogbn-arxiv", root=asked.data_root)
    graph, rows = dataset.graphs[0], dataset.split(0).train
    data = {"graphs": [(graph.x, graph.edge_index, graph.y)], "level": "node", "classes": 40, "train": rows}
    whole, parts = Loop(data, "gcn", 256, "gradnorm"), Loop(data, "gcn", 256, "gradnorm")

    def sampled() -> None:
        for part in NeighborLoader(graph, [15, 10], 2_048, rows):
            parts.step(slice(part.batch_size), part.y, part.x, part.edge_index)

    for name, run in (("whole", whole.epoch), ("sampled neighborhoods", sampled)):
        now = clock(asked)
        start = now()
        run()
        figures = {"GiB resident at most": resident()}
        yield Row("scale", f"ogbn-arxiv's citations, {name}, once", now() - start, figures=figures)


def made_up(edge_index: Tensor, nodes: int, features: int) -> dict[str, Any]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(nodes, features, generator=source)
    y = torch.randint(10, (nodes,), generator=source)
    train = torch.randperm(nodes, generator=source)[: nodes * 6 // 10].sort().values
    return {"graphs": [(x, edge_index, y)], "level": "node", "classes": 10, "train": train}


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that ``run`` held at once beyond what there was, from the allocator's own records."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = torch.tensor([0, *(event.nbytes() for event in sorted(records, key=lambda event: event.start_ns()))])
    return int(held.cumsum(0).max())


def resident() -> float:
    """The most memory that this process ever held, in GiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak if sys.platform == "darwin" else peak * 1024) / 2**30


def parallel(asked: argparse.Namespace) -> Iterator[Row]:
    """By the clock, one thread per process."""
    name, size = ("csbm", {"hidden": 16, "batch-size": 64}) if asked.quick else ("ogbn-arxiv", {"hidden": 256})
    options = {"batch-size": 2_048, "dataset": name, "method": "rade-of", "layers": 2, "patience": 0} | size
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    words += [] if asked.data_root is None else ["--data-root", str(asked.data_root.resolve())]
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    asked = argparse.Namespace(**vars(asked) | {"wall": True, "threads": 1})
    found = {}
    for count, before in (("1 process", []), ("2 processes", torchrun)):
        command = [sys.executable, "-m", *before, "rade", "train", "--runs", "1", "--overwrite", "--out", "out", *words]
        with tempfile.TemporaryDirectory() as folder:
            found[count] = [per_epoch(lambda n, c=command: [*c, "--epochs", str(n)], 1, asked, folder)]
    yield from compared("parallel", name, found, "2 processes", "1 process")


BENCHMARKS = {one.__name__: one for one in (wrapped, epoch, inference, sampling, neighbors, scale, parallel)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wall", action="store_true", help="time by the clock, not CPU time")
    parser.add_argument("--quick", action="store_true", help="toy sizes")
    parser.add_argument("--data", type=lambda text: text.split(","), help="data sets of wrapped and epoch")
    parser.add_argument("--model", type=lambda text: text.split(","), default=list(MODELS), help="models of wrapped")
    parser.add_argument("--rule", choices=("constant", "gradnorm"), default="constant", help="rates of wrapped")
    parser.add_argument("--against", type=Path, help="the src folder of another checkout, for wrapped")
    parser.add_argument("--authors", type=Path, help="a checkout of the authors' repository, for epoch")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work is not None:
        return work(asked.work)
    unknown = sorted({*asked.names} - {*BENCHMARKS} | {*asked.model} - {*MODELS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)} and models {', '.join(MODELS)}")
    asked.repeats = 1 if asked.quick else asked.repeats
    torch.set_num_threads(asked.threads)
    warnings.simplefilter("ignore")
    os.environ["PYTHONPATH"] = str(SOURCE)
    sys.path.insert(0, str(SOURCE))
    rows = []
    for name in asked.names or [name for name in BENCHMARKS if name != "parallel"]:
        for row in BENCHMARKS[name](asked):
            rows.append(row)
            if not asked.json:
                print(row, flush=True)
    if asked.json:
        print(json.dumps({"torch": torch.__version__, "threads": asked.threads, "rows": [vars(r) for r in rows]}))


if __name__ == "__main__":
    main()
