"""The same epochs with PyG's own layers, in a loop as people write it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader
from torch_geometric.utils import dropout_edge

from rade.bench.cases import Case
from rade.data import Dataset
from rade.nn.linear import dense
from rade.train.backbones import build_backbone
from rade.train.settings import Settings
from rade.train.stages import split_of, task_of
from rade.wrapper.conversion import revert

MOST_BYTES = 4e9  # of messages, of which a step holds several copies: GIN on Physics has 17 GB of them


class PyG:
    """The same model of PyG's own layers, in a loop as people write it: dense features, whole passes."""

    def __init__(self, case: Case, data: Dataset, settings: Settings, drop: float = 0.0) -> None:
        self.data, self.task, self.drop = data, task_of(data), drop
        split = split_of(data, 0, 0)
        rest: dict[str, Any] = {"layers": settings.layers, "pool": settings.pool, "encoder": data.encoder}
        net = build_backbone(case.backbone, data.features, settings.hidden, self.task.outputs, **rest)
        self.net = revert(net)
        self.optimizer = torch.optim.Adam(net.parameters(), lr=settings.lr)
        if data.level == "node":
            self.x, self.train = dense(data.graphs[0].x), split.train
        else:
            parts = [[data.graphs[int(i)] for i in part] for part in (split.train, split.val)]
            self.loaders = [DataLoader(part, settings.batch_size, shuffle=k == 0) for k, part in enumerate(parts)]

    def epoch(self, *_: object) -> None:
        """Training steps and an evaluation pass."""
        self.net.train()
        if self.data.level == "graph":
            for batch in self.loaders[0]:
                self._step(batch.x, batch.edge_index, batch.batch, slice(None), batch.y)
            self.net.eval()
            with torch.no_grad():
                for batch in self.loaders[1]:
                    self.net(batch.x, batch.edge_index, batch.batch)
            return
        graph = self.data.graphs[0]
        self._step(self.x, graph.edge_index, None, self.train, graph.y[self.train])
        self.net.eval()
        with torch.no_grad():
            self.net(self.x, graph.edge_index)

    def _step(self, x: Tensor, edge_index: Tensor, batch: Tensor | None, rows: Any, labels: Tensor) -> None:
        self.optimizer.zero_grad()
        if self.drop > 0.0:
            edge_index = dropout_edge(edge_index, self.drop, force_undirected=True)[0]
        torch.autograd.backward(self.task.loss(self.net(x, edge_index, batch)[rows], labels))
        self.optimizer.step()


def message_bytes(case: Case, data: Dataset) -> int:
    """What PyG's layers keep of the first layer's messages: one per edge, of the features' width before any map."""
    if data.level == "graph" or case.backbone in ("gcn", "gat"):  # these map first, to the hidden width
        return 0
    graph = data.graphs[0]
    return 4 * data.features * int(graph.edge_index.shape[1])
