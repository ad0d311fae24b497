"""One of the processes that `rade bench parallel` starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from rade.data import load
from rade.train.batches import batches_of
from rade.train.loop import Trainee, fit
from rade.train.model import Shape, build_learner
from rade.train.process import processes
from rade.train.settings import resolve
from rade.train.stages import problem_of

FULL: dict[str, Any] = {"hidden": 256, "batch_size": 2_048, "fanouts": (15, 10)}  # the paper's on ogbn-arxiv
TOY: dict[str, Any] = {"hidden": 16, "batch_size": 64, "fanouts": (5, 5)}


def work(quick: bool, seed: int, data_root: str | None, out: str) -> None:
    """One epoch to warm up, one that is timed; rank 0 writes down how long it took."""
    name, options = ("csbm", TOY) if quick else ("arxiv-structure", FULL)
    torch.set_num_threads(1)
    data = load(name, root=data_root)
    settings = resolve(name, "gcn", "rade-of", "paper", epochs=2, patience=0, layers=2, **options)
    with processes() as process:
        problem = problem_of(data, settings)
        batches = batches_of(problem, problem.split(seed), settings, seed, process)
        trainee = Trainee.of(build_learner(settings, Shape.of(data), seed, process.rank, data), settings)
        ends: list[float] = []
        fit(trainee, batches, problem.task, settings, process, lambda _: ends.append(perf_counter()))
        if process.rank == 0:
            (Path(out) / "seconds.json").write_text(json.dumps(ends[1] - ends[0]), "utf-8")


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
