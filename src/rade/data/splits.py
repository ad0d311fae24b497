"""Which nodes or graphs are for training, validation and test."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from rade.data.errors import DataError
from rade.memory import Memo

FOLDS = 10


@dataclass(frozen=True)
class Split:
    """Indices [k] of nodes (node level) or graphs (graph level)."""

    train: Tensor
    val: Tensor
    test: Tensor


class Splits(Protocol):
    """How a data set is split; one value per convention."""

    @property
    def folds(self) -> int:
        """Number of cross-validation folds, 0 if there are none."""

    def split(self, run: int, seed: int = 0) -> Split:
        """The split of one run."""

    def fold(self, k: int) -> Split:
        """The split of one fold."""


@dataclass(frozen=True)
class FixedSplit:
    """A public or official split: the same in every run."""

    fixed: Split
    folds: int = 0

    def split(self, run: int, seed: int = 0) -> Split:
        """The one split there is."""
        return self.fixed

    def fold(self, k: int) -> Split:
        """Refused: there are no folds."""
        raise DataError(_NO_FOLDS)


@dataclass(frozen=True)
class NumberedSplits:
    """Several public splits: run r takes number r, and those beyond the last begin again."""

    numbered: tuple[Split, ...]
    folds: int = 0  # their validation parts are not their test parts, so they are no folds

    def split(self, run: int, seed: int = 0) -> Split:
        """Split number run; the seed plays no part."""
        return self.numbered[run % len(self.numbered)]

    def fold(self, k: int) -> Split:
        """Refused: there are no folds."""
        raise DataError(_NO_FOLDS)


@dataclass(frozen=True)
class RandomSplit:
    """60/20/20 % at random, a new permutation per run, seeded by seed + run."""

    count: int
    folds: int = 0

    def split(self, run: int, seed: int = 0) -> Split:
        """Sizes ⌊0.6 n⌋, ⌊0.2 n⌋ and the rest."""
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(seed + run))
        train, val = self.count * 6 // 10, self.count * 2 // 10
        sizes = [train, val, self.count - train - val]
        return Split(*(part.sort().values for part in torch.split(order, sizes)))

    def fold(self, k: int) -> Split:
        """Refused: there are no folds."""
        raise DataError(_NO_FOLDS)


@dataclass(frozen=True)
class StratifiedFolds:
    """Ten stratified folds with seed 0, the protocol of the TU sets; val and test are the held-out fold."""

    y: Tensor
    folds: int = FOLDS
    memo: Memo = field(default_factory=Memo, init=False, repr=False, compare=False)

    def split(self, run: int, seed: int = 0) -> Split:
        """Run r holds out fold r mod 10; the folds themselves never depend on the seed."""
        return self.fold(run % self.folds)

    def fold(self, k: int) -> Split:
        """Train on nine folds, hold out fold k."""
        from sklearn.model_selection import StratifiedKFold

        if not 0 <= k < self.folds:
            raise DataError(f"fold must lie between 0 and {self.folds - 1}, got {k}")

        def build() -> list[Split]:
            folds = StratifiedKFold(self.folds, shuffle=True, random_state=0).split(self.y, self.y)
            parts = [(torch.from_numpy(train), torch.from_numpy(held_out)) for train, held_out in folds]
            return [Split(train, held_out, held_out) for train, held_out in parts]

        return self.memo.once("folds", build)[k]


_NO_FOLDS = "this data set has one split per run and no folds; use split(run, seed)"
