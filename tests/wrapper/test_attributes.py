"""The wrapper can be seen through: attributes, methods, arguments, and outputs of several parts are the model's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv

import rade
from adapting import adapting
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 40
X, EDGES = normal(NODES, 8), random_edges(NODES, 120)
LABELS = torch.arange(NODES) % 3


class Coder(torch.nn.Module):
    """Forward and another method that takes the graph."""

    dimension = 6

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.head = GCNConv(8, 6), GCNConv(6, 6), torch.nn.Linear(6, 3)

    def encode(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.head(self.encode(x, edge_index))

    def reset_parameters(self) -> None:
        self.conv1.reset_parameters()


def test_attributes_and_methods_reach_the_wrapped_model():
    model = adapting(seeded(Coder))
    assert model.conv1 is model.wrapped.conv1
    assert model.dimension == 6
    before = model.conv1.lin.weight.clone()
    model.reset_parameters()
    assert not torch.equal(before, model.conv1.lin.weight)
    assert model.decode(X, EDGES).shape == (EDGES.shape[1],)
    with pytest.raises(AttributeError, match="'Coder' object has no attribute 'conv3'"):
        _ = model.conv3
    assert not hasattr(model, "conv3")


def test_outputs_of_several_parts():
    class Both(Net):
        def forward(self, x: Tensor, edge_index: Any) -> tuple[Tensor, Tensor]:
            hidden = self.convs[0](x, edge_index)
            return self.head(self.convs[1](hidden.relu(), edge_index)), hidden

    model = adapting(seeded(lambda: Both(LAYERS["GCNConv"]))).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.follow(optimizer)
    for _ in range(2):
        logits, hidden = model(X, EDGES)
        (cross_entropy(logits[:20], LABELS[:20]) + 0.1 * hidden.square().mean()).backward()
        optimizer.step()
    assert int(model.rate_state.steps) == 2
    many = adapting(rade.revert(model), inference=rade.Ensemble(3)).eval()
    assert [part.shape for part in many(X, EDGES)] == [(NODES, 3), (NODES, 6)]

    class Named(Net):
        def forward(self, x: Tensor, edge_index: Any) -> dict[str, Tensor]:
            return {"logits": super().forward(x, edge_index)}

    model = adapting(seeded(lambda: Named(LAYERS["GCNConv"]))).train()
    cross_entropy(model(X, EDGES)["logits"], LABELS).backward()
    with pytest.raises(ValueError, match=r"expected logits, or a tuple whose first entry they are.*got dict"):
        model.adapt(X, EDGES)


class Crowded(Coder):
    """Uses names for itself that RADE's settings have, too."""

    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            setattr(self, name, f"its own {name}")

    def inference(self, x: Tensor, edge_index: Any) -> Tensor:
        return self(x, edge_index) + 1.0


NAMES = ("variant", "noise", "at", "generator", "views", "rule", "correction", "readout", "density", "graph", "law",
         "setting", "controller", "training_rates", "methods")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_the_model_has_is_not_hidden(name):
    model = rade.RADE(Crowded())
    assert getattr(model, name) == getattr(model.wrapped, name) == f"its own {name}"
    setattr(model, name, "another")
    assert getattr(model.wrapped, name) == "another"
    delattr(model, name)
    assert not hasattr(model.wrapped, name)


@pytest.mark.parametrize("method", ["inference", "encode"])
def test_methods_of_the_model_run_on_views(method):
    """PyG's SAGE examples call `model.inference(...)`, its autoencoders `encode`."""
    plain = seeded(Crowded)
    model = rade.RADE(copy.deepcopy(plain))
    one, other = (getattr(model.train(), method)(X, EDGES) for _ in range(2))
    assert not torch.equal(one, other)
    torch.testing.assert_close(getattr(model.eval(), method)(X, EDGES), getattr(plain, method)(X, EDGES))
    assert model.rade.variant == "of"


def test_what_is_set_on_the_wrapper_is_set_where_it_is_read():
    model = rade.RADE(seeded(Coder)).eval()
    model.head = torch.nn.Linear(6, 10)
    assert model(X, EDGES).shape == (NODES, 10)
    assert not [name for name, _ in model.named_parameters() if name.startswith("head")]
    model.note = "mine"
    assert "note" in model.__dict__
    model.encode = "not the method"
    assert callable(model.wrapped.encode)


def test_parameters_of_the_bare_model_say_where_they_belong():
    net = Coder()
    state, model = net.state_dict(), rade.RADE(net)
    with pytest.raises(RuntimeError, match=r"model\.wrapped\.load_state_dict"):
        model.load_state_dict(state)
    model.wrapped.load_state_dict(state)


class Greedy(Net):
    """Takes arguments by the names that `adapt` once kept for itself."""

    def __init__(self) -> None:
        super().__init__(GCNConv)
        self.seen: list[dict[str, Any]] = []

    def forward(
        self, x: Tensor, edge_index: Any, mask: Any = None, index: int = 0, *, loss: str = "", share: float = 1.0
    ) -> Tensor:
        self.seen.append({"mask": mask, "index": index, "loss": loss, "share": share})
        x = x if mask is None else x * mask[:, None]
        return super().forward(x, edge_index)


MINE = {"mask": torch.arange(NODES) > 4, "index": 3, "loss": "mine", "share": 0.25}


@pytest.mark.parametrize("positional", [False, True])
def test_arguments_arrive_everywhere(positional):
    net = seeded(Greedy)
    model = rade.RADE(net)
    args = (X, EDGES, MINE["mask"], MINE["index"]) if positional else (X, EDGES)
    rest = {name: value for name, value in MINE.items() if not positional or name in ("loss", "share")}
    cross_entropy(model.train()(*args, **rest), LABELS).backward()
    clean = model.adapt(*args, labelled=torch.arange(10), **rest)
    torch.testing.assert_close(model.eval()(*args, **rest), clean)
    model.explain(*args, **rest)
    model.by(rade.Expected(rates=rade.Rates(0.1)))(*args, **rest)
    assert len(net.seen) == 5
    for seen in net.seen:
        assert seen["mask"] is MINE["mask"]
        assert {name: seen[name] for name in ("index", "loss", "share")} == {"index": 3, "loss": "mine", "share": 0.25}
    with torch.no_grad():
        assert not torch.allclose(clean, model(X, EDGES))  # the mask makes a difference
