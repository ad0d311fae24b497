"""What is recalled by the memory of tensors: found again, noticed when it changed, forgotten with it."""

from __future__ import annotations

import copy
import gc
import pickle
from itertools import count

import pytest
import torch

from rade.runtime import Recall


def test_it_knows_the_memory_not_the_object():
    """Slices, detached copies, and the index tensors of a CSR matrix, which are new objects on every access."""
    x, recall, build = torch.arange(12.0).view(3, 4), Recall(), count(1).__next__
    assert [recall.get((x,), None, build), recall.get((x.detach(),), None, build)] == [1, 1]
    assert [recall.get((x[1:],), None, build), recall.get((x[1:],), None, build)] == [2, 2]
    sparse = x.to_sparse_csr()
    assert sparse.col_indices() is not sparse.col_indices()
    assert [recall.get((sparse.col_indices(),), None, build) for _ in range(2)] == [3, 3]


def test_it_tells_shapes_kinds_words_and_missing_tensors_apart():
    x, recall, build = torch.arange(12.0), Recall(), count(1).__next__
    alive = [(x,), (x.view(3, 4),), (x, None), (None, x), (x.clone(),), (x.view(torch.int),)]
    given = [*((tensors, None) for tensors in alive), ((x,), 5)]
    assert [recall.get(tensors, extra, build) for tensors, extra in given] == [1, 2, 3, 4, 5, 6, 7]
    assert len(recall) == 7
    assert recall.known((x,), 5)
    assert not recall.known((x,), 6)


def test_it_notices_a_change_in_place():
    x, recall, build = torch.arange(4.0), Recall(), count(1).__next__
    recall.get((x,), None, build)
    x.mul_(2)
    assert not recall.known((x,), None)
    assert [recall.get((x,), None, build), recall.get((x,), None, build)] == [2, 2]
    x[1:].zero_()
    assert recall.get((x,), None, build) == 3


def test_it_forgets_with_the_memory():
    x, y, recall = torch.arange(4.0), torch.ones(2), Recall()
    recall.get((x, y), None, count(1).__next__)
    part = x[1:]
    del x
    gc.collect()
    assert len(recall) == 1  # a slice still holds the memory
    del part
    gc.collect()
    assert len(recall) == 0


def test_inference_tensors_are_not_kept_and_what_is_kept_is_ordinary():
    """The former count no versions; the latter must serve training later."""
    x, recall, build = torch.ones(2), Recall(), count(1).__next__
    with torch.inference_mode():
        gone = torch.ones(2)
        value = recall.get((x,), None, lambda: torch.ones(3))
    assert [recall.get((gone,), None, build), recall.get((gone,), None, build)] == [1, 2]
    assert not recall.known((gone,), None)
    assert not value.is_inference()
    assert recall.get((x,), None, build) is value


@pytest.mark.parametrize("other", [copy.copy, copy.deepcopy, lambda recall: pickle.loads(pickle.dumps(recall))])
def test_copies_are_empty(other):
    x, recall = torch.ones(2), Recall()
    recall.get((x,), None, count(1).__next__)
    assert (len(other(recall)), len(recall)) == (0, 1)
