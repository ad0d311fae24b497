"""RADE in other people's loops: what wrapping a PyG model costs, and what inference costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

from rade.bench.measure import Contestant, Row, Setting, interleaved
from rade.control.rules import GradNorm
from rade.data import load
from rade.nn.linear import dense
from rade.wrapper.module import RADE


def _inputs(setting: Setting) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    # The toy has labels enough for RADE not to warn of few.
    data = load("csbm", labelled=50) if setting.quick else load("cora", root=setting.data_root)
    graph = data.graphs[0]
    return dense(graph.x), graph.edge_index, graph.y, data.split(0).train, data.classes


def wrapped(setting: Setting) -> Iterator[Row]:
    """A plain PyG loop on dense features, training step and evaluation pass, and the same loop with RADE(net)."""
    x, edge_index, y, train, classes = _inputs(setting)

    def loop(model: torch.nn.Module) -> Callable[[Any], None]:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def epoch(_: Any) -> None:
            model.train()
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(model(x, edge_index)[train], y[train]))
            optimizer.step()
            if isinstance(model, RADE):
                model.adapt(x, edge_index, labelled=train)
            model.eval()
            with torch.no_grad():
                model(x, edge_index)

        return epoch

    sizes = (x.shape[1], 16 if setting.quick else 512, 2, classes)
    ours = RADE(GCN(*sizes), rule=GradNorm())
    contestants = {"PyG": Contestant(loop(GCN(*sizes))), "RADE(net)": Contestant(loop(ours))}
    seconds = interleaved(contestants, setting.repeats)
    yield Row("wrapped", "PyG's loop", seconds["PyG"])
    ratio = seconds["RADE(net)"] / seconds["PyG"]
    yield Row("wrapped", "the loop with RADE(net) and adapt", seconds["RADE(net)"], "PyG's loop", ratio, 1.2)


def inference(setting: Setting) -> Iterator[Row]:
    """Evaluation passes at rates that stand still: RADE-OF and RADE-OFS against the plain graph."""
    x, edge_index, _, _, classes = _inputs(setting)
    sizes = (x.shape[1], 16 if setting.quick else 512, 2, classes)
    models = {variant: RADE(GCN(*sizes), variant).eval() for variant in ("of", "ofs")}
    graph = models["of"]._graph(models["of"]._call((x, edge_index), {}))

    def run(call: Callable[[], object]) -> Contestant:
        def passed(_: Any) -> None:
            with torch.no_grad():
                call()

        return Contestant(passed)

    contestants = {f"RADE-{variant.upper()}": run(lambda m=m: m(x, graph)) for variant, m in models.items()}  # type: ignore[misc]
    contestants["plain"] = run(lambda: models["of"].wrapped(x, graph))
    seconds = interleaved(contestants, setting.repeats)
    yield Row("inference", "plain", seconds["plain"])
    for name in ("RADE-OF", "RADE-OFS"):
        target = 1.15 if name == "RADE-OFS" else None
        yield Row("inference", name, seconds[name], "plain", seconds[name] / seconds["plain"], target)
