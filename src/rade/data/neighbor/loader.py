"""Mini-batches of sampled neighborhoods, and the rate that a full graph needs after them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch_geometric.typing
from torch import Tensor
from torch.utils.data import RandomSampler
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, NodeLoader

from rade.data.errors import DataError
from rade.data.features import csr, take_rows
from rade.data.neighbor.neighborhoods import Neighborhoods
from rade.data.neighbor.sampler import VectorisedNeighborSampler
from rade.data.neighbor.workers import SamplingLoader

Backend = Literal["auto", "builtin", "pyg-lib"]


@dataclass(frozen=True)
class Sampling:
    """How neighbors are drawn.

    Attributes:
        replace: the same neighbor may be drawn twice.
        disjoint: keep the neighborhoods of different seeds apart.
        bidirectional: add the reverse of every sampled edge.
    """

    replace: bool = False
    disjoint: bool = False
    bidirectional: bool = True


def neighbor_loader(
    data: Data,
    fanouts: Sequence[int],
    batch_size: int,
    input_nodes: Tensor | None = None,
    shuffle: bool = False,
    seed: int = 0,
    *,
    sampling: Sampling = Sampling(),  # noqa: B008 - a frozen value
    backend: Backend = "auto",
    **options: Any,
) -> NodeLoader:
    """Batches around ``batch_size`` seed nodes: PyG data with x, y, edge_index, n_id and batch_size, seeds first.

    ``backend="auto"`` takes pyg-lib where it is installed; "builtin" gives the same batches on every machine. Sparse
    CSR features stay CSR. ``options`` go to PyG's loader (``num_workers``, ``drop_last``, ``transform``, …). With
    workers a ``transform`` runs in them: one that draws takes its generator from a `WorkerGenerator`.
    """
    _require_no_edge_attributes(data, sampling)
    slim, attach = _without_sparse_features(data)
    options |= {
        "batch_size": batch_size,
        "generator": torch.Generator().manual_seed(seed),
        "transform": _chain(attach, options.get("transform")),
    }
    if shuffle:
        options["sampler"] = _order(input_nodes, data.num_nodes, seed)
    if _use_pyg_lib(backend):
        options |= {"replace": sampling.replace, "disjoint": sampling.disjoint}
        options["subgraph_type"] = "bidirectional" if sampling.bidirectional else "directional"
        return NeighborLoader(slim, list(fanouts), input_nodes, **options)
    neighborhoods = Neighborhoods.of(data.edge_index, data.num_nodes)
    replace, disjoint, both_ways = sampling.replace, sampling.disjoint, sampling.bidirectional
    sampler = VectorisedNeighborSampler(neighborhoods, list(fanouts), replace, disjoint, both_ways, seed)
    return SamplingLoader(slim, sampler, input_nodes, **options)


def mean_batch_nodes(batches: Iterable[Data], limit: int = 20) -> float:
    """The mean number n_b of nodes of the first ``limit`` batches: `Rates.scaled(n_b / n)` suits a graph of n nodes."""
    sizes = [float(batch.num_nodes) for _, batch in zip(range(limit), batches)]
    return sum(sizes) / len(sizes)


def _order(input_nodes: Tensor | None, num_nodes: int, seed: int) -> RandomSampler:
    """A generator of its own: the loader's is also asked for workers' seeds, how often depends on their number."""
    nodes = torch.arange(num_nodes) if input_nodes is None else input_nodes
    count = int(nodes.sum()) if nodes.dtype is torch.bool else nodes.numel()
    return RandomSampler(range(count), generator=torch.Generator().manual_seed(seed))


def _use_pyg_lib(backend: Backend) -> bool:
    installed = bool(torch_geometric.typing.WITH_PYG_LIB)
    if backend == "pyg-lib" and not installed:
        raise DataError("backend 'pyg-lib' needs the package pyg-lib, which is not installed; use backend 'builtin'")
    return installed and backend != "builtin"


def _require_no_edge_attributes(data: Data, sampling: Sampling) -> None:
    attributes = [key for key in data.edge_attrs() if key != "edge_index"]
    if sampling.bidirectional and attributes:
        raise DataError(
            f"the edge attributes {attributes} have no value on the reverse edges that bidirectional batches add; "
            f"delete them from the data or pass sampling=rade.data.Sampling(bidirectional=False)"
        )


def _without_sparse_features(data: Data) -> tuple[Data, Callable[[Data], Data]]:
    """PyG cannot take rows of a sparse matrix: keep it aside and attach its rows to each batch."""
    if data.x is None or data.x.layout is not torch.sparse_csr:
        return data, _unchanged
    slim = Data(**{key: value for key, value in data.to_dict().items() if key != "x"})
    slim.num_nodes = data.num_nodes
    return slim, _Attach(data.x)


class _Attach:
    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __call__(self, batch: Data) -> Data:
        batch.x = take_rows(self.x, batch.n_id)
        return batch

    def __reduce__(self) -> tuple[Any, ...]:
        # In its parts: PyTorch warns of its own layout whenever it restores one.
        return _attach, (self.x.crow_indices(), self.x.col_indices(), self.x.values(), tuple(self.x.shape))


def _attach(*parts: Any) -> _Attach:
    return _Attach(csr(*parts))


def _unchanged(batch: Data) -> Data:
    return batch


def _chain(first: Callable[[Data], Data], second: Callable[[Data], Data] | None) -> Callable[[Data], Data]:
    return first if second is None else _Chain(first, second)


class _Chain:
    def __init__(self, *steps: Callable[[Data], Data]) -> None:
        self.steps = steps

    def __call__(self, batch: Data) -> Data:
        for step in self.steps:
            batch = step(batch)
        return batch
