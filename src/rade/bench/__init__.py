"""Speed and memory as ratios: contestants measured side by side in one run. A benchmark is a function of a registry."""

from collections.abc import Iterator
from dataclasses import replace

from rade.bench.convolution import convolution
from rade.bench.epochs import epoch, phases, rate_step
from rade.bench.growth import growth
from rade.bench.loops import inference, wrapped
from rade.bench.measure import Benchmark, Row, Setting
from rade.bench.parallel import parallel
from rade.bench.sampling import sampling
from rade.bench.scale import scale

BENCHMARKS: dict[str, Benchmark] = {
    "sampling": sampling,
    "convolution": convolution,
    "growth": growth,
    "epoch": epoch,
    "phases": phases,
    "rate-step": rate_step,
    "wrapped": wrapped,
    "inference": inference,
    "scale": scale,
    "parallel": parallel,
}


def goals(setting: Setting) -> Iterator[Row]:
    """Every ratio that has a goal, in one run."""
    for benchmark in (epoch, wrapped, inference, rate_step, scale):
        yield from (row for row in benchmark(replace(setting, goals=True)) if row.target is not None)


GROUPS: dict[str, Benchmark] = {"goals": goals}

__all__ = ["BENCHMARKS", "GROUPS", "Benchmark", "Row", "Setting"]
