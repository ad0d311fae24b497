"""Mixed precision and `torch.compile`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import rade
from zoo import EDGES, LABELS, X, adapting, seeded


def trained(kind: type, mixed: bool, inside: bool) -> tuple[rade.RADE, torch.Tensor]:
    model = adapting(seeded(lambda: kind(8, 16, 2, 3)), "ofs")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = cross_entropy(model.train()(X, EDGES), LABELS)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed and inside):
            loss.backward()
            assert model.adapt().dtype == torch.float32
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
