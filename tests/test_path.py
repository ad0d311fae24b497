"""The walk of a rate step through the house: rooms are entered, left, and not gone back to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade

SOURCE = Path(rade.__file__).parent


def rooms_of(action) -> list[str]:
    """The folders of `rade` whose functions are called, in order, each once per visit."""
    visited = [""]

    def note(frame, event, _):
        name = frame.f_code.co_filename
        setting = frame.f_code.co_name in ("__setattr__", "is_wrapped")  # to note something is to ask nobody
        if event == "call" and not setting and name.startswith(str(SOURCE) + os.sep):
            room = Path(name).relative_to(SOURCE).parts[0].removesuffix(".py")
            if room != visited[-1]:
                visited.append(room)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return visited[1:]


def test_a_rate_step_enters_the_wrapper_twice():
    """To read the call and find its graph; and, with the law known, to run the clean pass. Nothing asks back."""
    torch.manual_seed(0)
    ring = torch.arange(12)
    edge_index = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], 1)
    x, y = torch.randn(12, 4), ring % 3
    model = rade.RADE(GCN(4, 8, 2, 3))
    for _ in range(2):  # the second step finds everything built
        cross_entropy(model(x, edge_index), y).backward()
        rooms = rooms_of(lambda: model.adapt(x, edge_index, labelled=ring))
    assert rooms.count("wrapper") <= 2
    assert {"nn", "control", "moments"} <= set(rooms), "nothing was recorded"
