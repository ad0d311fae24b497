"""A store of comparisons takes no run for that of another model: whatever decides what it computes is in its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCN, GCNConv

import rade
from rade.comparison.work import identity
from zoo import seeded


class Net(torch.nn.Module):
    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.conv = GCNConv(3, 2)
        vars(self).update(values)


def power(exponent: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x**exponent


PAIRS: dict[str, tuple[Any, Any]] = {
    "lambdas of one line": (lambda x: x.relu(), lambda x: x.tanh()),
    "what a function remembers": (power(1.0), power(2.0)),
    "bfloat16": (torch.zeros(3).bfloat16(), torch.ones(3).bfloat16()),
    "types": (GCN, GCNConv),
    "own modules in a list": ([seeded(lambda: GCNConv(3, 2))], [seeded(lambda: GCNConv(3, 2, normalize=False))]),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_what_is_set_on_a_model_is_part_of_its_name(kind):
    one, other = PAIRS[kind]
    first, again, changed = (identity(seeded(lambda value=value: Net(_value=value))) for value in (one, one, other))
    assert first == again != changed


NETS = """
import torch
from torch_geometric.nn import MessagePassing
SCALE = 2
class Net(MessagePassing):
    def forward(self, x, edge_index):
        return scaled(self.propagate(edge_index, x=x))
def scaled(x):
    return x * SCALE
"""
SCRIPT = """
import nets
from rade.comparison.work import identity
class Mine(nets.Net):
    pass
def name():
    return identity(lambda: nets.Net(), Mine, Mine())
print(name())
nets.SCALE = 3
print(name())
"""


@pytest.mark.slow
def test_names_hold_in_other_processes_until_a_helper_of_a_helper_changes(start, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(rade.__file__).parents[1]))
    found = []
    for seed, moved in (("1", ""), ("2", "# moved")):
        (tmp_path / "nets.py").write_text(moved + NETS)
        (tmp_path / "script.py").write_text(moved + SCRIPT)
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(start("-B", "script.py").communicate(timeout=100))
    (first, _), (again, _) = found
    assert first == again, found
    assert len(set(first.split())) == 2, found
