"""The two memories: on immutable values, and by the memory of tensors."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import dataclass, field

import pytest
import torch
from rade.memory import Memo, Recall, remembered
from torch import Tensor


class Counter:
    """A function that knows how often it ran."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls


@dataclass(frozen=True)
class Square:
    """A value with a remembered property."""

    side: float
    memo: Memo = field(default_factory=Memo, init=False, repr=False, compare=False)

    @remembered
    def area(self) -> Tensor:
        """Side squared."""
        return torch.tensor(self.side).square()


def test_a_memo_builds_once_per_key():
    memo, build = Memo(), Counter()
    assert [memo.once(key, build) for key in ("a", "a", "b", "a")] == [1, 1, 2, 1]
    assert len(memo) == 2


def test_a_memo_keeps_the_latest_up_to_its_limit():
    memo, build = Memo(limit=2), Counter()
    for key in "abc":
        memo.once(key, build)
    assert len(memo) == 2
    assert memo.once("c", build) == 3
    assert memo.once("a", build) == 4


def test_an_error_is_not_kept():
    memo = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.once("a", lambda: 1 / 0)
    assert memo.once("a", lambda: 5) == 5


@pytest.mark.parametrize("other", [copy.deepcopy, lambda memo: pickle.loads(pickle.dumps(memo)), copy.copy])
def test_copies_of_memories_are_empty(other):
    memo, recall = Memo(limit=3), Recall()
    memo.once("a", Counter())
    recall.get((torch.ones(2),), None, Counter())
    kept = other(memo)
    assert (len(kept), kept.limit) == (0, 3)
    assert len(other(recall)) == 0
    assert len(memo) == 1


@pytest.mark.parametrize("gradients", [True, False])
def test_what_is_kept_in_inference_mode_is_an_ordinary_tensor(gradients):
    """And the grad mode inside is that outside: leaving inference mode would switch gradients on."""
    memo, seen = Memo(), []

    def build() -> Tensor:
        seen.append(torch.is_grad_enabled())
        return torch.ones(2)

    with torch.inference_mode(), torch.set_grad_enabled(gradients):
        assert not memo.once("a", build).is_inference()
    assert seen == [gradients]
    with torch.set_grad_enabled(gradients):
        memo.once("b", build)
    assert seen == [gradients, gradients]


def test_a_remembered_property_is_computed_once_and_documented():
    square = Square(3.0)
    assert square.area is square.area
    assert Square.area.__doc__ == "Side squared."
    assert len(copy.deepcopy(square).memo) == 0
    assert Square(3.0) == square


def test_recall_knows_the_memory_not_the_object():
    """Slices, detached copies, and the index tensors of a CSR matrix, which are new objects on every access."""
    x, recall, build = torch.arange(12.0).view(3, 4), Recall(), Counter()
    assert [recall.get((x,), None, build), recall.get((x.detach(),), None, build)] == [1, 1]
    assert [recall.get((x[1:],), None, build), recall.get((x[1:],), None, build)] == [2, 2]
    sparse = x.to_sparse_csr()
    assert sparse.col_indices() is not sparse.col_indices()
    assert [recall.get((sparse.col_indices(),), None, build) for _ in range(2)] == [3, 3]


def test_recall_tells_shapes_words_and_missing_tensors_apart():
    x, recall, build = torch.arange(12.0), Recall(), Counter()
    given = [
        ((x,), None),
        ((x.view(3, 4),), None),
        ((x,), 5),
        ((x, None), None),
        ((None, x), None),
        ((x.clone(),), None),
    ]
    kept = [tensors for tensors, _ in given]  # alive for as long as the test
    assert [recall.get(tensors, extra, build) for tensors, extra in given] == [1, 2, 3, 4, 5, 6]
    assert len(kept) == len(recall) == 6


def test_recall_notices_a_change_in_place():
    x, recall, build = torch.arange(4.0), Recall(), Counter()
    recall.get((x,), None, build)
    x.mul_(2)
    assert [recall.get((x,), None, build), recall.get((x,), None, build)] == [2, 2]
    x[1:].zero_()
    assert recall.get((x,), None, build) == 3


def test_recall_forgets_with_the_tensor():
    x, y, recall = torch.arange(4.0), torch.ones(2), Recall()
    recall.get((x, y), None, Counter())
    part = x[1:]
    del x
    gc.collect()
    assert len(recall) == 1  # a slice still holds the memory
    del part
    gc.collect()
    assert len(recall) == 0


def test_recall_does_not_keep_inference_tensors():
    """They count no versions."""
    recall, build = Recall(), Counter()
    with torch.inference_mode():
        x = torch.ones(2)
    assert [recall.get((x,), None, build), recall.get((x,), None, build)] == [1, 2]
    assert len(recall) == 0


def test_recall_in_inference_mode_keeps_ordinary_tensors():
    x, recall = torch.ones(2), Recall()
    with torch.inference_mode():
        value = recall.get((x,), None, lambda: torch.ones(3))
    assert not value.is_inference()
    assert recall.get((x,), None, Counter()) is value
