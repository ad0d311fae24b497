"""How near the formulas for the variance of logits are to what is sampled: one JSON line per network.

    python -m benchmarks.logit_variance --networks 5 --out results/studies/logit-variance/ratios.jsonl.gz
    python -m benchmarks.logit_variance --table results/studies/logit-variance/ratios.jsonl.gz

Random networks of width 16 at p = ρ = 0.5 with an independent view per layer, their heads scaled to logits of order
one: node level on a random graph of 200 nodes and mean degree 4, and sum pooling over 16 random graphs of 18 nodes.
The ratio is R by sampled views over R by `model.noise_report`'s two formulas. Lines in the file are not computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from statistics import geometric_mean
from typing import Any

import torch
from benchmarks.study import add, asked
from torch import Tensor

import rade
from rade.train.backbones import build_backbone

BACKBONES, LAYERS, POOLS, VARIANTS = ("gcn", "gin", "sage", "gat"), (1, 2, 4), ("none", "sum"), ("of", "ofs")
FEATURES, WIDTH, CLASSES, DEGREE = 8, 16, 4, 4.0
NEAR = (0.75, 1.3)
FORMULAS = ("all_layers", "last_layer")


def random_graphs(count: int, nodes: int, seed: int) -> dict[str, Tensor]:
    """Features, edges and batch vector of equally large graphs whose pairs are joined independently."""
    generator = torch.Generator().manual_seed(seed)
    edges = []
    for graph in range(count):
        pairs = torch.triu_indices(nodes, nodes, 1)
        pairs = pairs[:, torch.rand(pairs.shape[1], generator=generator) < DEGREE / (nodes - 1)] + graph * nodes
        edges.append(torch.cat([pairs, pairs.flip(0)], 1))
    x = torch.rand(count * nodes, FEATURES, generator=generator)
    return {"x": x, "edge_index": torch.cat(edges, 1), "batch": torch.arange(count).repeat_interleave(nodes)}


def ratios(backbone: str, layers: int, pool: str, variant: str, network: int, views: int, signs: int) -> dict[str, Any]:
    """Sampled R of one random network, its standard error, and the share of it that each formula has."""
    graphs = random_graphs(1, 200, network) if pool == "none" else random_graphs(16, 18, network)
    torch.manual_seed(network)
    net = build_backbone(backbone, FEATURES, WIDTH, CLASSES, layers, pool).eval()
    readout = rade.Readout(head="head", pool=None if pool == "none" else "sum")
    generator = torch.Generator().manual_seed(network)
    model = rade.RADE(net, variant, rule=rade.Constant(0.5, 0.5), readout=readout, generator=generator).eval()
    with torch.no_grad():
        net.head.weight /= model(**graphs).std()
    found = model.noise_report(**graphs, views=views, signs=signs)
    return {"sampled": found.sampled, "error": found.error} | {name: getattr(found, name) for name in FORMULAS}


def cell(line: dict[str, Any]) -> tuple[str, int, str, str]:
    return line["backbone"], line["layers"], line["pool"], line["variant"]


def table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A markdown table: geometric means over networks, least and largest in brackets, RADE-OF / RADE-OFS."""
    lines = list(rows)
    yield "| | layers | all layers, node | last layer, node | all layers, pooled | last layer, pooled |"
    yield "|---|---|---|---|---|---|"
    for backbone, layers in product(BACKBONES, LAYERS):
        cells = [
            " / ".join(_summary(lines, (backbone, layers, pool, variant), formula) for variant in VARIANTS)
            for pool, formula in product(POOLS, FORMULAS)
        ]
        yield f"| {backbone.upper()} | {layers} | {' | '.join(cells)} |"
    means = {key: geometric_mean(_ratios(lines, key, "all_layers")) for key in sorted({cell(line) for line in lines})}
    single = [ratio for key in means for ratio in _ratios(lines, key, "all_layers")]
    yield ""
    counts = f"{_near(means.values())} of {len(means)} means, {_near(single)} of {len(single)} networks"
    yield f"Within {NEAR[0]} and {NEAR[1]}, all layers: {counts}."


def _ratios(lines: list[dict[str, Any]], key: tuple[str, int, str, str], formula: str) -> list[float]:
    return [line["sampled"] / line[formula] for line in lines if cell(line) == key]


def _summary(lines: list[dict[str, Any]], key: tuple[str, int, str, str], formula: str) -> str:
    found = _ratios(lines, key, formula)
    return f"{geometric_mean(found):.2f} [{min(found):.2f}, {max(found):.2f}]" if found else "not run"


def _near(values: Any) -> int:
    return sum(NEAR[0] <= value <= NEAR[1] for value in values)


def main() -> None:
    names = ("backbone", "layers", "pool", "variant", "network")
    given, done = asked(__doc__, "ratios.jsonl", names, table, networks=5, views=400, signs=64)
    for key in product(BACKBONES, LAYERS, POOLS, VARIANTS, range(given.networks)):
        if key not in done:
            counts = {"views": given.views, "signs": given.signs}
            add(given.out, dict(zip(names, key)) | ratios(*key, **counts) | counts)


if __name__ == "__main__":
    main()
