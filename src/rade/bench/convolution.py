"""One corrected convolution, forward and backward, against the plain one and PyG's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.bench.graphs import ARXIV, random_graph
from rade.bench.measure import Contestant, Row, Setting, interleaved
from rade.nn import GCNConv
from rade.view.rates import Rates
from rade.view.sampling import sample_view


def train_step(conv: torch.nn.Module, x: Tensor, adjacency: Any) -> None:
    """Forward, and backward to the parameters; no gradient is left behind."""
    conv(x, adjacency).sum().backward()
    conv.zero_grad()


def convolution(setting: Setting) -> Iterator[Row]:
    """GCNConv of width 256 at ogbn-arxiv's size, p = ρ = ½: on a view, with sampling it, on the graph, and PyG's."""
    nodes, edges, width = (2_000, 10_000, 16) if setting.quick else (*ARXIV, 256)
    generator = setting.generator()
    graph = random_graph(nodes, edges, generator)
    rates, edge_index = Rates(0.5, 0.5 * graph.density), graph.edge_index
    x = torch.randn(nodes, width, generator=generator)
    ours, theirs = GCNConv(width, width), pyg.GCNConv(width, width)
    contestants = {
        "RADE-OF": Contestant(lambda view: train_step(ours, x, view), lambda: sample_view(graph, rates, generator)),
        "RADE-OF with sampling": Contestant(lambda _: train_step(ours, x, sample_view(graph, rates, generator))),
        "plain": Contestant(lambda _: train_step(ours, x, graph)),
        "PyG": Contestant(lambda _: train_step(theirs, x, edge_index)),
    }
    seconds = interleaved(contestants, setting.repeats)
    yield Row("convolution", "PyG", seconds["PyG"])
    yield Row("convolution", "plain", seconds["plain"], "PyG", seconds["plain"] / seconds["PyG"])
    targets = (("RADE-OF", "plain", 1.8), ("RADE-OF", "PyG", 0.6))
    for name, against, target in (*targets, *(("RADE-OF with sampling", peer, None) for peer in ("plain", "PyG"))):
        yield Row("convolution", name, seconds[name], against, seconds[name] / seconds[against], target)
