"""How things are measured: interleaved, medians, one warm-up each; peak memory from the allocator's own records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class Setting:
    """What all benchmarks of a run share; ``quick`` asks for toy sizes, whose figures mean nothing."""

    repeats: int = 5
    seed: int = 0
    quick: bool = False
    data_root: str | None = None  # for benchmarks on real data
    only: tuple[str, ...] = ()  # data sets to look at; all of a benchmark's by default
    authors: str | None = None  # a checkout of the authors' scripts, to be timed as well
    goals: bool = False  # leave out contestants that no goal speaks of

    def generator(self) -> torch.Generator:
        """A generator at the seed."""
        return torch.Generator().manual_seed(self.seed)


@dataclass(frozen=True)
class Row:
    """One contestant: its median seconds and, against another, the ratio and the ratio that we aim for."""

    benchmark: str
    name: str
    seconds: float
    against: str = ""
    ratio: float | None = None
    target: float | None = None
    figures: dict[str, float] = field(default_factory=dict)


Benchmark = Callable[[Setting], Iterator[Row]]


@dataclass(frozen=True)
class Contestant:
    """``run(prepare())``, of which only ``run`` is timed."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None


def interleaved(contestants: dict[str, Contestant], repeats: int) -> dict[str, float]:
    """Median seconds of each. They take turns, so that a busy moment of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, contestant in contestants.items():
            given = contestant.prepare()
            start = perf_counter()
            contestant.run(given)
            if turn > 0:  # the first turn warms up
                seconds[name].append(perf_counter() - start)
    return {name: median(times) for name, times in seconds.items()}


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that ``run`` held at once beyond what there was, on the CPU."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = torch.tensor([0, *(event.nbytes() for event in sorted(records, key=lambda event: event.start_ns()))])
    return int(held.cumsum(0).max())
