"""Whole models on real data: an epoch against PyG's layers on dense features, and what the rate step adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import cross_entropy

from rade import nn
from rade.bench.measure import Contestant, Row, Setting, interleaved
from rade.graph.graph import Graph
from rade.nn.linear import dense
from rade.wrapper.module import RADE


@dataclass(frozen=True)
class Case:
    """A data set, the paper's width for it, and how much faster than PyG an epoch is meant to be."""

    data: str
    width: int
    faster: float


CASES = (Case("cora", 512, 1.8), Case("cs", 64, 8.0), Case("computer", 128, 8.0))
TOY = (Case("csbm", 16, 1.0),)


class TwoLayers(torch.nn.Module):
    """The paper's backbone: two convolutions, ReLU after each, a linear head."""

    def __init__(self, conv: Any, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = conv(features, width), conv(width, width)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        """Logits, [n, C]."""
        out: Tensor = self.head(self.second(self.first(x, edge_index).relu(), edge_index).relu())
        return out


class Trainer:
    """One model with its inputs, labels and optimizer."""

    def __init__(self, model: torch.nn.Module, inputs: tuple[Any, ...], y: Tensor, train: Tensor) -> None:
        self.model, self.inputs, self.y, self.train = model, inputs, y, train
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(self, *_: object) -> None:
        """Forward and backward on the training nodes."""
        self.model.train()
        self.optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(self.model(*self.inputs)[self.train], self.y[self.train]))

    def epoch(self, *_: object) -> None:
        """A training step, the update, and one pass for evaluation."""
        self.step()
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            self.model(*self.inputs)


def epoch(setting: Setting) -> Iterator[Row]:
    """An epoch of a plain GCN, training and evaluation: sorted graph and sparse features against PyG's layers."""
    for case, x, edge_index, y, train, sizes in _loaded(setting):
        graph = Graph.from_edge_index(edge_index, x.shape[0])
        ours = Trainer(TwoLayers(nn.GCNConv, *sizes), (x, graph), y, train)
        theirs = Trainer(TwoLayers(pyg.GCNConv, *sizes), (dense(x), edge_index), y, train)
        seconds = interleaved({"ours": Contestant(ours.epoch), "PyG": Contestant(theirs.epoch)}, setting.repeats)
        yield Row("epoch", f"PyG on {case.data}", seconds["PyG"])
        ratio = seconds["ours"] / seconds["PyG"]
        yield Row("epoch", f"plain GCN on {case.data}", seconds["ours"], "PyG", ratio, 1.0 / case.faster)


def adapt(setting: Setting) -> Iterator[Row]:
    """A RADE-OF step and a rate step, its own clean pass included, against a plain step of the same model."""
    for case, x, edge_index, y, train, sizes in _loaded(setting):
        graph = Graph.from_edge_index(edge_index, x.shape[0])
        plain = Trainer(TwoLayers(nn.GCNConv, *sizes), (x, graph), y, train)
        model = RADE(TwoLayers(nn.GCNConv, *sizes), generator=setting.generator())
        corrected = Trainer(model, (x, graph), y, train)
        contestants = {
            "plain": Contestant(plain.step),
            "RADE-OF step": Contestant(corrected.step),
            "rate step": Contestant(lambda _: model.adapt(x, graph, labelled=train)),  # noqa: B023 (called in this turn)
        }
        seconds = interleaved(contestants, setting.repeats)
        yield Row("adapt", f"plain step on {case.data}", seconds["plain"])
        for name, target in (("RADE-OF step", None), ("rate step", 1.8)):
            ratio = seconds[name] / seconds["plain"]
            yield Row("adapt", f"{name} on {case.data}", seconds[name], "plain", ratio, target)


def _loaded(setting: Setting) -> Iterator[tuple[Case, Tensor, Tensor, Tensor, Tensor, tuple[int, int, int]]]:
    from rade.data import load

    for case in TOY if setting.quick else CASES:
        data = load(case.data, root=setting.data_root)
        graph = data.graphs[0]
        sizes = (data.features, case.width, data.classes)
        yield case, graph.x, graph.edge_index, graph.y, data.split(0).train, sizes
