"""Speed and memory as ratios: contestants measured side by side in one run. A benchmark is a function of a registry."""

from rade.bench.convolution import convolution
from rade.bench.growth import growth
from rade.bench.measure import Benchmark, Row, Setting
from rade.bench.model import adapt, epoch
from rade.bench.sampling import sampling

BENCHMARKS: dict[str, Benchmark] = {
    "sampling": sampling,
    "convolution": convolution,
    "growth": growth,
    "epoch": epoch,
    "adapt": adapt,
}

__all__ = ["BENCHMARKS", "Benchmark", "Row", "Setting"]
