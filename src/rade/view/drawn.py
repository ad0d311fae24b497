"""Samples that estimates are made of, drawn once: a pass that is repeated meets the same ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import torch

from rade.memory import Memo

T = TypeVar("T")


class Drawn:
    """What was drawn to estimate moments, by name, for every evaluation: from a stream that always begins alike.

    Evaluations then agree with each other, and the views of training do not depend on how often somebody looked.
    """

    lasting = True  # it serves more than a single view, and should be the larger sample

    def __init__(self) -> None:
        self._memo = Memo()

    def once(self, key: Hashable, device: torch.device, draw: Callable[[torch.Generator | None], T]) -> T:
        """What ``draw`` returns with a generator on ``device``, drawn when it is first asked for."""
        return self._memo.once((key, device), lambda: draw(self._source(device)))

    def _source(self, device: torch.device) -> torch.Generator | None:
        return torch.Generator(device).manual_seed(0)

    def __reduce__(self) -> tuple[type[Drawn], tuple[()]]:
        return Drawn, ()


class DrawnForView(Drawn):
    """The same for one view of training, by the generator that views come from; torch's default one if None."""

    lasting = False

    def __init__(self, generator: torch.Generator | None) -> None:
        super().__init__()
        self._generator = generator

    def _source(self, device: torch.device) -> torch.Generator | None:
        return self._generator
