"""Neighbor sampling at ogbn-arxiv size: time per batch, and its ratio to PyG's feature slice of the same batch.

Run it on an otherwise idle machine:  python benchmarks/sampler.py [--threads 1] [--batches 20] [--json]
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader.utils import index_select
from torch_geometric.sampler import NodeSamplerInput

from rade.data import Sampling, neighbor_loader
from rade.data.tensors import clean_edges

NODES, CITATIONS, FEATURES = 169_343, 1_166_243, 128
FANOUTS, SEEDS = (15, 10, 5), 1024
TORCH_ONLY = 257  # ms per batch of a sampler written with torch alone, on a quiet two-core machine


def arxiv_like() -> Data:
    """A random graph with the sizes of ogbn-arxiv, made undirected."""
    rng = np.random.default_rng(0)
    edge_index = clean_edges(*rng.integers(0, NODES, (2, CITATIONS)), NODES)
    return Data(x=torch.rand(NODES, FEATURES), edge_index=edge_index, num_nodes=NODES)


def measure(data: Data, bidirectional: bool, batches: int) -> dict[str, float]:
    loader = neighbor_loader(data, FANOUTS, SEEDS, sampling=Sampling(bidirectional=bidirectional), backend="builtin")
    generator = torch.Generator().manual_seed(0)
    sampling, slicing, nodes, edges = [], [], [], []
    for _ in range(batches + 2):
        seeds = torch.randperm(NODES, generator=generator)[:SEEDS]
        start = time.perf_counter()
        out = loader.node_sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=seeds))
        middle = time.perf_counter()
        index_select(data.x, out.node, dim=0)
        sampling.append(1e3 * (middle - start))
        slicing.append(1e3 * (time.perf_counter() - middle))
        nodes.append(out.node.numel())
        edges.append(out.row.numel())
    # The first two batches pay for cold memory; the median resists a busy neighbor.
    sample, piece = statistics.median(sampling[2:]), statistics.median(slicing[2:])
    return {
        "sampling_ms": sample,
        "fastest_ms": min(sampling[2:]),
        "slice_ms": piece,
        "ratio_to_slice": sample / piece,
        "speedup_over_torch_only": TORCH_ONLY / sample,
        "nodes": statistics.mean(nodes),
        "edges": statistics.mean(edges),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = arxiv_like()
    results = {
        "bidirectional": measure(data, True, options.batches),
        "one direction": measure(data, False, options.batches),
    }
    if options.json:
        print(json.dumps(results, indent=1))
        return
    for kind, found in results.items():
        print(
            f"{kind}: {found['sampling_ms']:.0f} ms per {SEEDS} seeds at fan-out {FANOUTS} "
            f"(fastest {found['fastest_ms']:.0f}), {found['ratio_to_slice']:.2f} x PyG's feature slice "
            f"({found['slice_ms']:.0f} ms), {found['speedup_over_torch_only']:.1f} x faster than {TORCH_ONLY} ms; "
            f"{found['nodes']:,.0f} nodes, {found['edges']:,.0f} edges"
        )


if __name__ == "__main__":
    main()
