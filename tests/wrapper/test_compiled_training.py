"""`torch.compile` around a model in training: what is between layers is compiled, views are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg

import rade

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
EDGES = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])


@pytest.mark.filterwarnings("ignore")  # the compiler looks at everything, and warns of what it looks at
@pytest.mark.parametrize("outside", [True, False], ids=["compile(RADE)", "RADE(compile)"])
def test_few_programs_are_made(outside: bool) -> None:
    """A program for each step of a layer's sums takes minutes to compile, and a view changes its shapes."""
    programs = []

    def backend(program: Any, inputs: Any) -> Callable[..., Any]:
        programs.append(program)
        return program.forward  # type: ignore[no-any-return]

    torch._dynamo.reset()
    net = pyg.GCN(4, 8, 2, 3)
    wrap = [rade.RADE, lambda model: torch.compile(model, backend=backend)]
    first, second = wrap if outside else wrap[::-1]
    model = second(first(net))
    outputs = [model(X, EDGES) for _ in range(3)]
    assert not torch.equal(outputs[0], outputs[1])
    assert len(programs) <= 12
    torch._dynamo.reset()
