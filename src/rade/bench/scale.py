"""Full RADE-OF epochs as graphs grow: random graphs, and ogbn-arxiv's citations, whole and sampled."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from rade.bench.graphs import random_graph
from rade.bench.measure import Contestant, Row, Setting, interleaved
from rade.control.labelled import Labelled
from rade.control.rules import GradNorm
from rade.data import load, neighbor_loader
from rade.graph.graph import Graph
from rade.nn.rows import Wanted
from rade.train.backbones import build_backbone
from rade.wrapper.module import RADE

CLASSES, DEGREE, GIB = 10, 10, 2**30


class Epoch:
    """A two-layer GCN with RADE-OF: training step, rate step and evaluation on random features and labels."""

    def __init__(self, features: int, width: int, generator: torch.Generator) -> None:
        self.model = RADE(build_backbone("gcn", features, width, CLASSES), rule=GradNorm(), generator=generator)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, x: Tensor, graph: Graph, y: Tensor, rows: Tensor) -> None:
        """Training and rate step."""
        self.model.train()
        self.optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(self.model(x, graph, wanted=Wanted(rows)), y[rows]))
        self.optimizer.step()
        self.model.adapt(x, graph, wanted=Wanted(rows, everybody=True), labelled=Labelled())

    def whole(self, x: Tensor, graph: Graph, y: Tensor, rows: Tensor) -> None:
        """One step on all of a graph, and an evaluation pass."""
        self.step(x, graph, y, rows)
        self.model.eval()
        with torch.no_grad():
            self.model(x, graph)

    def sampled(self, data: Data, rows: Tensor, seeds: int) -> None:
        """Steps on sampled neighborhoods, fan-outs 15 and 10, of all training nodes."""
        for part in neighbor_loader(data, [15, 10], seeds, rows, backend="builtin"):
            graph = Graph.from_edge_index(part.edge_index, part.num_nodes)
            self.step(part.x, graph, part.y, torch.arange(part.batch_size))


def scale(setting: Setting) -> Iterator[Row]:
    """Seconds per edge and resident memory from 10^4 to 10^6 nodes at degree 10, width 64; then ogbn-arxiv's graph."""
    first = None
    for nodes in (500, 1_000) if setting.quick else (10**4, 10**5, 10**6):
        graph, x, y, rows = _inputs(nodes, nodes * DEGREE // 2, 64, setting)
        epoch = Epoch(64, 64, setting.generator())
        contestant = Contestant(lambda _: epoch.whole(x, graph, y, rows))  # noqa: B023 - called in this turn
        seconds = interleaved({"epoch": contestant}, setting.repeats)["epoch"]
        per_edge = seconds / graph.num_edges
        first = per_edge if first is None else first
        figures = {"ns per edge": 1e9 * per_edge, "GiB resident at most": _resident() / GIB}
        yield Row("scale", f"n = {nodes:,}", seconds, "per edge of the smallest", per_edge / first, 1.5, figures)
    if setting.goals:
        return
    width, seeds = (16, 256) if setting.quick else (256, 2_048)
    graph, x, y, rows = _inputs(2_000, 10_000, 128, setting) if setting.quick else _citations(setting)
    whole, sampled = Epoch(128, width, setting.generator()), Epoch(128, width, setting.generator())
    data = Data(x=x, y=y, edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    contestants = {
        "whole graph": Contestant(lambda _: whole.whole(x, graph, y, rows)),
        "sampled neighborhoods": Contestant(lambda _: sampled.sampled(data, rows, seeds)),
    }
    for name, seconds in interleaved(contestants, 1).items():
        figures = {"GiB resident at most": _resident() / GIB}
        yield Row("scale", f"ogbn-arxiv's citations, {name}", seconds, figures=figures)


def _citations(setting: Setting) -> tuple[Graph, Tensor, Tensor, Tensor]:
    """ogbn-arxiv's real edges, random features of width 128 and labels, its share of training nodes."""
    data = load("arxiv-structure", root=setting.data_root)
    found = data.graphs[0]
    graph = Graph.from_edge_index(found.edge_index, found.num_nodes)
    return graph, found.x, found.y % CLASSES, data.split(0).train.sort().values


def _inputs(nodes: int, edges: int, features: int, setting: Setting) -> tuple[Graph, Tensor, Tensor, Tensor]:
    generator = setting.generator()
    graph = random_graph(nodes, edges, generator)
    x = torch.randn(nodes, features, generator=generator)
    y = torch.randint(CLASSES, (nodes,), generator=generator)
    return graph, x, y, torch.randperm(nodes, generator=generator)[: nodes * 6 // 10].sort().values


def _resident() -> int:
    """The most memory that this process ever held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
