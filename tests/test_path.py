"""The way of a training step and of a rate step through the code: how many calls, in how many files."""

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade

SOURCE = str(Path(rade.__file__).parent) + os.sep
RING = torch.arange(12)
EDGES = torch.cat([torch.stack([RING, RING.roll(1)]), torch.stack([RING.roll(1), RING])], 1)
X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


def walked(action: Callable[[], object]) -> list[str]:
    """The file of every call into `rade`, in order."""
    files: list[str] = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            files.append(frame.f_code.co_filename.removeprefix(SOURCE))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return files


def held(what: str, files: list[str], calls: int, most: int) -> None:
    """Print the walk, and hold its bounds; whoever shortens it lowers them."""
    changes = sum(one != other for one, other in pairwise(files))
    print(f"{what}: {len(files)} calls, {len(set(files))} files, {changes} changes of file")
    assert 50 < len(files) <= calls, "more calls than before, or nothing was recorded"
    assert len(set(files)) <= most


def model_of(rule: rade.Rule) -> rade.RADE:
    torch.manual_seed(0)
    return rade.RADE(GCN(4, 8, 2, 3), rule=rule).train()


def test_a_training_step():
    """A two-layer GCN at constant rates; the third step finds everything built."""
    model = model_of(rade.Constant())
    for _ in range(3):
        files = walked(lambda: cross_entropy(model(X, EDGES), RING % 3).backward())
    held("training step", files, calls=143, most=15)


def test_a_rate_step():
    """By GradNorm, after a training step."""
    model = model_of(rade.GradNorm())
    for _ in range(3):
        cross_entropy(model(X, EDGES), RING % 3).backward()
        files = walked(lambda: model.adapt())
    held("rate step", files, calls=211, most=20)
