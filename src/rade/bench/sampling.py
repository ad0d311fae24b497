"""Sampling as many additions as there are edges, against PyG's negative sampling."""

from __future__ import annotations

from collections.abc import Iterator

from rade.bench.graphs import ARXIV, random_graph
from rade.bench.measure import Contestant, Row, Setting, interleaved
from rade.graph.pairs import bernoulli_positions, unrank_pairs
from rade.view.rates import Rates
from rade.view.sampling import sample_view


def sampling(setting: Setting) -> Iterator[Row]:
    """ρ = 1 on a random graph of ogbn-arxiv's size: the pairs alone, the whole view, and PyG for as many pairs."""
    from torch_geometric.utils import negative_sampling

    nodes, edges = (2_000, 10_000) if setting.quick else ARXIV
    generator = setting.generator()
    graph = random_graph(nodes, edges, generator)
    edge_index, walk = graph.edge_index, (graph.num_pairs, graph.density, generator, graph.device)
    contestants = {
        "pairs": Contestant(lambda _: unrank_pairs(bernoulli_positions(*walk), graph.sizes)),
        "view": Contestant(lambda _: sample_view(graph, Rates(0.5, graph.density), generator)),
        "PyG negative_sampling": Contestant(lambda _: negative_sampling(edge_index, nodes, edges, method="sparse")),
    }
    seconds = interleaved(contestants, setting.repeats)
    peer = "PyG negative_sampling"
    yield Row("sampling", peer, seconds[peer])
    for name, target in (("pairs", 1 / 10), ("view", 1 / 6)):
        yield Row("sampling", name, seconds[name], peer, seconds[name] / seconds[peer], target)
