"""A store of comparisons takes no run for that of another model: whatever is set on a model is part of its name."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu
from torch_geometric.nn import GCN, GCNConv

from rade.comparison.identity import described, identity
from zoo import seeded


class Net(torch.nn.Module):
    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.conv = GCNConv(3, 2)
        vars(self).update(values)


class Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Tensor) -> Tensor:
        return self.by * x


def power(exponent: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x**exponent


PAIRS: dict[str, tuple[Any, Any]] = {
    "functions of torch": (torch.relu, torch.tanh),
    "lambdas of one line": (lambda x: x.relu(), lambda x: x.tanh()),
    "what a function remembers": (power(1.0), power(2.0)),
    "partial functions": (functools.partial(leaky_relu, negative_slope=0.1), functools.partial(leaky_relu)),
    "namespaces": (argparse.Namespace(scale=1.0), argparse.Namespace(scale=0.0)),
    "own objects": (Scaled(1.0), Scaled(2.0)),
    "their methods": (Scaled(1.0).__call__, Scaled(2.0).__call__),
    "nested": ({"a": [Scaled(1.0)]}, {"a": [Scaled(2.0)]}),
    "tensors": (torch.zeros(3), torch.ones(3)),
    "bfloat16": (torch.zeros(3).bfloat16(), torch.ones(3).bfloat16()),
    "arrays": (np.zeros(3), np.ones(3)),
    "types": (GCN, GCNConv),
    "sets": ({"a", "b"}, {"a", "c"}),
    "own private modules": ([seeded(lambda: GCNConv(3, 2))], [seeded(lambda: GCNConv(3, 2, normalize=False))]),
}


def name(**values: Any) -> str:
    return identity(seeded(lambda: Net(**values)), "")


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("attribute", ["value", "_value"])
def test_what_is_set_on_a_model_is_part_of_its_name(kind, attribute):
    one, other = PAIRS[kind]
    assert name(**{attribute: one}) == name(**{attribute: one})
    assert name(**{attribute: one}) != name(**{attribute: other})


def test_cycles_and_objects_without_attributes_end():
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert described(loop)
    assert described(object()) == described(object())
