"""A model's own arguments reach it, whatever they are called, in forward, in evaluation and in rate steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv

import rade
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 20
X, EDGES = normal(NODES, 8), random_edges(NODES, 40)
LABELS = torch.arange(NODES) % 3


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


def test_the_mask_of_a_model_is_not_the_known_labels():
    """The rate step with a model's own mask is that of the masked features."""
    first = []
    for x, options in ((X * MINE["mask"][:, None], {}), (X, {"mask": MINE["mask"]})):
        model = rade.RADE(seeded(Greedy), rule=rade.GradNorm(data_gradient="clean"), density=0.2)
        labelled = rade.Labelled(torch.arange(10), loss=lambda logits: cross_entropy(logits[:10], LABELS[:10]))
        model.adapt(x, EDGES, labelled=labelled, **options)
        first.append(model.rate_state.first.clone())
    torch.testing.assert_close(*first)


def test_a_keyword_called_labelled_would_be_swallowed():
    """So such a model is refused, also where the parameter is keyword-only."""

    class Labels(Net):
        def forward(self, x: Tensor, edge_index: Any, *, labelled: Tensor) -> Tensor:
            return super().forward(x, edge_index)

    with pytest.raises(ValueError, match=r"Labels.forward has a parameter named 'labelled'.*rename it"):
        rade.RADE(Labels(LAYERS["GCNConv"]))


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"got the class Net: build it, RADE\(Net\(...\)\)"):
        rade.RADE(Net)
    with pytest.raises(TypeError, match=r"a torch.nn.Module, got 3"):
        rade.RADE(3)


def test_the_argument_that_looks_like_a_graph_is_named():
    class Other(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(8, 3)

        def forward(self, x, e):
            return self.conv(x, e)

    with pytest.raises(ValueError, match=r"say RADE\(model, edge_index_arg='e'\)"):
        rade.RADE(Other())(X, EDGES)
    rade.RADE(Other(), edge_index_arg="e")(X, EDGES)
