"""Mini-batches of sampled neighborhoods: PyG's loaders with a sampler that needs no compiled extras."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch_geometric.typing
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, NodeLoader

from rade.data.catalogue import DataError
from rade.data.sampler import Neighborhoods, VectorisedNeighborSampler
from rade.data.tensors import csr
from rade.graph.sparse import rows_of

Backend = Literal["auto", "builtin", "pyg-lib"]
Transform = Callable[[Data], Data]


@dataclass(frozen=True)
class Sampling:
    """How neighbors are drawn.

    Attributes:
        replace: the same neighbor may be drawn twice.
        bidirectional: add the reverse of every sampled edge.
    """

    replace: bool = False
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
    CSR features stay CSR. ``options`` go to PyG's loader (``num_workers``, ``drop_last``, ``transform``, …).
    """
    attributes = [key for key in data.edge_attrs() if key != "edge_index"]
    if sampling.bidirectional and attributes:
        raise DataError(
            f"the edge attributes {attributes} have no value on the reverse edges that bidirectional batches add; "
            f"delete them from the data or pass sampling=rade.data.Sampling(bidirectional=False)"
        )
    slim = data
    if data.x is not None and data.x.layout is torch.sparse_csr:
        slim = Data(**{key: value for key, value in data.to_dict().items() if key != "x"})
        slim.num_nodes = data.num_nodes
        options["transform"] = _AttachRows(data.x, options.get("transform"))
    options |= {"batch_size": batch_size, "generator": torch.Generator().manual_seed(seed)}
    if shuffle:
        options["sampler"] = _order(input_nodes, data.num_nodes, seed)
    if _use_pyg_lib(backend):
        options |= {"replace": sampling.replace}
        options["subgraph_type"] = "bidirectional" if sampling.bidirectional else "directional"
        return NeighborLoader(slim, list(fanouts), input_nodes, **options)
    neighborhoods = Neighborhoods.of(data.edge_index, data.num_nodes)
    sampler = VectorisedNeighborSampler(neighborhoods, list(fanouts), **asdict(sampling), seed=seed)
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


class _AttachRows:
    """PyG cannot take rows of a sparse matrix: it is kept aside, and its rows are attached to each batch."""

    def __init__(self, x: Tensor, following: Transform | None = None) -> None:
        self.x, self.following = x, following

    def __call__(self, batch: Data) -> Data:
        batch.x = rows_of(self.x, batch.n_id)
        return batch if self.following is None else self.following(batch)

    def __reduce__(self) -> tuple[Any, ...]:
        # In its parts: PyTorch warns of its own layout whenever it restores one.
        parts = (self.x.crow_indices(), self.x.col_indices(), self.x.values(), tuple(self.x.shape))
        return _attach_rows, (parts, self.following)


def _attach_rows(parts: Any, following: Transform | None) -> _AttachRows:
    return _AttachRows(csr(*parts), following)


class SamplingLoader(NodeLoader):
    """PyG's loader; each pass over it draws anew, in forked, spawned and persistent workers alike."""

    def __iter__(self) -> Iterator[Data]:
        self.node_sampler.passes += 1
        batches: Iterator[Data] = super().__iter__()
        return batches

    def __getstate__(self) -> dict[str, Any]:
        """What a spawned worker is sent: the data and the sampler as bytes, and the shared count of passes.

        PyTorch would send every tensor as a file descriptor, which fails where two tensors share memory or one is
        empty. The queues and generators of the loader stay where they are.
        """
        nothing: Any = range(1)
        machinery = vars(DataLoader(nothing))
        content = {name: value for name, value in vars(self).items() if name not in machinery}
        return {"content": pickle.dumps(content), "passes": self.node_sampler.passes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(pickle.loads(state["content"]))
        self.node_sampler.passes = state["passes"]
