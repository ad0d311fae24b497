"""Time and memory per edge as graphs grow at constant degree: both must stay flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from rade.bench.convolution import train_step
from rade.bench.graphs import random_graph
from rade.bench.measure import Contestant, Row, Setting, interleaved, peak_bytes
from rade.graph.graph import Graph
from rade.nn import GCNConv
from rade.view.rates import Rates
from rade.view.sampling import sample_view

MEAN_DEGREE = 10
WIDTH = 16


def growth(setting: Setting) -> Iterator[Row]:
    """Sampling a view and one RADE-OF step of width 16 for n = 10^4, 10^5, 10^6."""
    for nodes in (500, 1_000) if setting.quick else (10**4, 10**5, 10**6):
        edges, generator = nodes * MEAN_DEGREE // 2, setting.generator()
        step = sampled_step(random_graph(nodes, edges, generator), generator)
        seconds = interleaved({"step": Contestant(step)}, setting.repeats)["step"]
        held = peak_bytes(step)
        figures = {"edges": edges, "ns per edge": 1e9 * seconds / edges, "bytes per edge": held / edges}
        yield Row("growth", f"n = {nodes:,}", seconds, figures=figures)


def sampled_step(graph: Graph, generator: torch.Generator) -> Callable[..., None]:
    """Drawing a view with p = ρ = ½, then forward and backward on it."""
    rates = Rates(0.5, 0.5 * graph.density)
    x, conv = torch.randn(graph.num_nodes, WIDTH, generator=generator), GCNConv(WIDTH, WIDTH)
    return lambda *_: train_step(conv, x, sample_view(graph, rates, generator))
