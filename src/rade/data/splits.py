"""Which nodes or graphs are for training, validation and test; one value per convention."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Indices [k] of nodes (node level) or graphs (graph level)."""

    train: Tensor
    val: Tensor
    test: Tensor


class Splits(ABC):
    """How a data set is split. Without cross-validation ``folds`` is 0."""

    folds: int = 0

    @abstractmethod
    def split(self, run: int, seed: int = 0) -> Split:
        """The split of one run."""


@dataclass(frozen=True)
class FixedSplit(Splits):
    """A public or official split, the same in every run; of several, run r takes number r, and then they begin again.

    Their validation parts are not their test parts, so they are no folds.
    """

    fixed: Split
    others: tuple[Split, ...] = ()

    def split(self, run: int, seed: int = 0) -> Split:
        """Split number run; the seed plays no part."""
        return (self.fixed, *self.others)[run % (1 + len(self.others))]


@dataclass(frozen=True)
class RandomSplit(Splits):
    """60/20/20 % at random, a new permutation per run, seeded by seed + run."""

    count: int

    def split(self, run: int, seed: int = 0) -> Split:
        """Sizes ⌊0.6 n⌋, ⌊0.2 n⌋ and the rest."""
        return shares(torch.randperm(self.count, generator=torch.Generator().manual_seed(seed + run)))


@dataclass(frozen=True)
class StratifiedFolds(Splits):
    """Ten stratified folds with seed 0, the protocol of the TU sets; val and test are the held-out fold."""

    y: Tensor
    folds: int = 10

    def split(self, run: int, seed: int = 0) -> Split:
        """Run r holds out fold r mod 10 and trains on the others; the folds never depend on the seed."""
        return self._every[run % self.folds]

    @cached_property
    def _every(self) -> list[Split]:
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(self.folds, shuffle=True, random_state=0).split(self.y, self.y)
        parts = [(torch.from_numpy(train), torch.from_numpy(held_out)) for train, held_out in folds]
        return [Split(train, held_out, held_out) for train, held_out in parts]


def shares(order: Tensor) -> Split:
    """60/20/20 % of a permutation, each part sorted."""
    train, val = len(order) * 6 // 10, len(order) * 2 // 10
    sizes = [train, val, len(order) - train - val]
    return Split(*(part.sort().values for part in torch.split(order, sizes)))
