"""A linear axis: where values lie, which round ones to mark, and with how many digits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A linear map from values to places, and round values to mark."""

    low: float
    high: float
    start: float
    end: float

    @staticmethod
    def between(low: float, high: float, start: float, end: float) -> "Axis":
        """Exactly these limits."""
        return Axis(low, high if high > low else low + 1, start, end)

    @staticmethod
    def around(values: Sequence[float], start: float, end: float) -> "Axis":
        """Limits that leave some air around the values."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        air = 0.06 * (high - low) or max(abs(high) * 0.01, 1e-6)
        return Axis(low - air, high + air, start, end)

    def __call__(self, value: float) -> float:
        """Where a value lies."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def marks(self, count: int) -> list[float]:
        """About `count` round values inside the limits."""
        rough = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * size for size in (1, 2, 5, 10) if power * size >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


def digits(marks: Sequence[float]) -> int:
    """As few digits as keep the marks apart and exact."""
    return next((n for n in range(6) if all(abs(mark - round(mark, n)) < 1e-9 for mark in marks)), 6)
