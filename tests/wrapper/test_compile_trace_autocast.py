"""Mixed precision: under autocast views are summed in float32, and rates adapt as without it."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import rade
from zoo import normal, random_edges, seeded

NODES = 60
X, EDGES = normal(NODES, 8), random_edges(NODES, 120)
LABELS = torch.arange(NODES) % 3


def trained(kind: type, mixed: bool) -> tuple[rade.RADE, torch.Tensor]:
    net = seeded(lambda: kind(8, 16, 2, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    model = rade.RADE(net, "ofs", rule=rade.GradNorm(), generator=torch.Generator().manual_seed(0)).follow(optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = cross_entropy(model.train()(X, EDGES), LABELS)
        loss.backward()
        optimizer.step()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        return model, model.eval()(X, EDGES)


@pytest.mark.parametrize("kind", [GCN, GIN, GAT, GraphSAGE])
def test_training_under_autocast_is_that_without_it_but_for_rounding(kind):
    (exact, output), (mixed, rounded) = (trained(kind, mixed) for mixed in (False, True))
    assert mixed.rates.p == pytest.approx(exact.rates.p, abs=1e-4)
    assert mixed.rates.p != 0.5
    assert float((rounded.float() - output).abs().max()) < 0.05 * float(output.abs().max())


def test_adapting_inside_autocast_changes_nothing():
    model = rade.RADE(seeded(lambda: GCN(8, 16, 2, 3)), rule=rade.GradNorm())
    cross_entropy(model.train()(X, EDGES), LABELS).backward()
    with torch.autocast("cpu", torch.bfloat16):
        assert model.adapt().dtype == torch.float32


def test_a_model_in_bfloat16_is_told_of_autocast():
    model = rade.RADE(GCN(8, 16, 2, 3)).to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"float32 or float64 on a CPU, got features in bfloat16.*torch\.autocast"):
        model.train()(X.to(torch.bfloat16), EDGES)
