"""Models whose rates adapt by the paper's rule, for tests of what a rate step does."""

from __future__ import annotations

from typing import Any

import rade


def adapting(model: Any, *arguments: Any, **options: Any) -> rade.RADE:
    """`rade.RADE` with `rade.GradNorm()` unless another rule is given."""
    return rade.RADE(model, *arguments, **{"rule": rade.GradNorm(), **options})
