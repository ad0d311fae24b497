"""Samples that estimates are made of, drawn once: a pass that is repeated meets the same ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import torch

from rade.memory import Memo

T = TypeVar("T")


class Drawn:
    """What was drawn to estimate moments, by name.

    generator: where it comes from. None is a stream of its own that always begins alike: evaluations then agree with
    each other, and the views of training do not depend on how often somebody looked.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self._generator = generator
        self._memo = Memo()

    @property
    def lasting(self) -> bool:
        """Whether it serves every evaluation, and not a single view: it should then be the larger sample."""
        return self._generator is None

    def once(self, key: Hashable, device: torch.device, draw: Callable[[torch.Generator], T]) -> T:
        """What ``draw`` returns with a generator on ``device``, drawn when it is first asked for."""
        return self._memo.once((key, device), lambda: draw(self._generator or torch.Generator(device).manual_seed(0)))

    def __reduce__(self) -> tuple[type[Drawn], tuple[()]]:
        return Drawn, ()
