"""CPU time of denoised inference over that of plain inference, passes of both taking turns: one JSON line per model.

    RADE_DATA=data python benchmarks/denoised_cost.py --dataset computer,cs,cora --backbone gcn,sage,gin > cost.jsonl

On a busy machine other programs can only add to a time, so lower quartiles are compared, not means. The first pass at
new rates builds an operator, which later ones share: `first` is its time over a plain pass's.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import quantiles

import torch
from cases import Task
from corrupted_graphs import OTHERS, TRAINING

import rade
from rade.noise import EdgeEvidence, rates_of
from rade.train.backbones import build_backbone
from rade.train.record import commit, versions
from rade.train.stages import Corruption


def seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


@torch.no_grad()
def cost(task: Task, backbone: str, repetitions: int) -> dict[str, float]:
    """Lower quartiles over passes that take turns, on a graph in which every second edge is spurious."""
    torch.manual_seed(0)
    net = build_backbone(backbone, task.dataset.features, TRAINING.get(task.name, OTHERS)[1], task.dataset.classes)
    model = rade.RADE(net, rule=rade.Constant(0.0, 0.0)).eval()
    graph = Corruption(add=1.0, seed=0).of(task.graph)
    rates = rates_of(graph, 0.5)
    trust = EdgeEvidence.of(graph, task.near, torch.Generator().manual_seed(0)).trust(0.5)
    ways = {"plain": rade.Expected(), "denoised": rade.Denoised(rates), "edges": rade.Denoised(rates, trust)}
    runs = {name: (lambda way=way: model.by(way)(task.x, graph)) for name, way in ways.items()}
    runs["plain"]()
    first = {name: seconds(run) for name, run in runs.items()}
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repetitions):
        for name in list(runs) if turn % 2 else reversed(runs):
            times[name].append(seconds(runs[name]))
    low = {name: quantiles(found, n=4)[0] for name, found in times.items()}
    plain, found = low["plain"], {name: round(low[name] / low["plain"], 3) for name in ("denoised", "edges")}
    return {"plain_ms": round(1000 * plain, 2), **found, "first": round(first["denoised"] / plain, 1)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", default="computer,cs,cora")
    arguments.add_argument("--backbone", default="gcn,sage,gin")
    arguments.add_argument("--repetitions", type=int, default=21)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    origin = {"commit": commit(), "versions": dict(versions())}
    for name in asked.dataset.split(","):
        task = Task.of(name)
        for backbone in asked.backbone.split(","):
            found = cost(task, backbone, asked.repetitions)
            print(json.dumps({"dataset": name, "backbone": backbone, **found, **origin}), flush=True)


if __name__ == "__main__":
    main()
