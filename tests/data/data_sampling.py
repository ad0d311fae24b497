"""What the tests of the sampler and of its loader share."""

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import rade.data
from rade.data.edges import clean_edges


def random_graph(nodes: int = 400, edges: int = 2400, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    edge_index = clean_edges(rng.integers(0, nodes, edges), rng.integers(0, nodes, edges), nodes)
    x = torch.from_numpy(rng.normal(size=(nodes, 5)).astype(np.float32))
    return Data(x=x, edge_index=edge_index, y=torch.arange(nodes) % 3, num_nodes=nodes)


DATA = random_graph()
SAMPLING = ("replace", "disjoint", "bidirectional")


def keys(edge_index: Tensor, n_id: Tensor, nodes: int = DATA.num_nodes) -> Tensor:
    """One number per edge, in the numbering of the full graph."""
    source, target = n_id[edge_index]
    return source * nodes + target


def loader(fanouts: list[int], **options):
    sampling = rade.data.Sampling(**{key: options.pop(key) for key in SAMPLING if key in options})
    options = {"batch_size": 50, "shuffle": True, "seed": 3, "backend": "builtin"} | options
    return rade.data.neighbor_loader(DATA, fanouts, sampling=sampling, **options)


CASES = {
    "plain": {},
    "one direction": {"bidirectional": False},
    "replacement": {"replace": True},
    "replacement, one direction": {"replace": True, "bidirectional": False},
    "disjoint": {"disjoint": True},
    "disjoint, one direction": {"disjoint": True, "bidirectional": False},
}


def signature(batches) -> list[tuple[Tensor, Tensor]]:
    return [(batch.n_id, batch.edge_index) for batch in batches]


def same(first, second) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(first, second)
    )
