"""Mixed precision and `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import rade
from zoo import EDGES, LABELS, X, adapting, seeded


def trained(kind: type, mixed: bool, inside: bool) -> tuple[rade.RADE, torch.Tensor]:
    net = seeded(lambda: kind(8, 16, 2, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    model = adapting(net, "ofs").follow(optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = cross_entropy(model.train()(X, EDGES), LABELS)
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        optimizer.step()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        return model, model.eval()(X, EDGES)


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("kind", [GCN, GIN, GAT, GraphSAGE])
def test_training_under_autocast_is_that_without_it_but_for_rounding(kind, inside):
    (exact, output), (mixed, rounded) = (trained(kind, mixed, inside) for mixed in (False, True))
    assert mixed.rates.p == pytest.approx(exact.rates.p, abs=1e-4)
    assert mixed.rates.p != 0.5
    assert float((rounded.float() - output).abs().max()) < 0.05 * float(output.abs().max())


def test_adapting_inside_autocast_changes_nothing():
    model = adapting(seeded(lambda: GCN(8, 16, 2, 3)))
    cross_entropy(model.train()(X, EDGES), LABELS).backward()
    with torch.autocast("cpu", torch.bfloat16):
        assert model.adapt().dtype == torch.float32


def test_a_model_in_bfloat16_is_told_of_autocast():
    model = rade.RADE(GCN(8, 16, 2, 3)).to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"float32 or float64 on a CPU, got features in bfloat16.*torch\.autocast"):
        model.train()(X.to(torch.bfloat16), EDGES)


@pytest.mark.filterwarnings("ignore")  # the compiler looks at everything, and warns of what it looks at
@pytest.mark.parametrize("outside", [True, False], ids=["compile(RADE)", "RADE(compile)"])
def test_few_programs_are_made(outside: bool) -> None:
    """A program for each step of a layer's sums takes minutes to compile, and a view changes its shapes."""
    programs = []

    def backend(program: Any, inputs: Any) -> Callable[..., Any]:
        programs.append(program)
        return program.forward  # type: ignore[no-any-return]

    torch._dynamo.reset()
    net = GCN(8, 8, 2, 3)
    expected = net(X, EDGES)
    wrap = [rade.RADE, lambda model: torch.compile(model, backend=backend)]
    first, second = wrap if outside else wrap[::-1]
    model = second(first(net))
    outputs = [model(X, EDGES) for _ in range(3)]
    assert not torch.equal(outputs[0], outputs[1])
    torch.testing.assert_close(model.eval()(X, EDGES), expected)
    assert len(programs) <= 12
    torch._dynamo.reset()
