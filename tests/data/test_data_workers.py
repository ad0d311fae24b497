"""Worker processes: forked, spawned or served, they give the same batches, and their own random draws."""

import pickle

import pytest
import torch
from data_sampling import loader, same, signature
from torch.utils.data import DataLoader
from torch_geometric.data import Data

import rade.data
from rade.data.neighbor.neighborhoods import Neighborhoods


class Drawn:
    """A transform that draws one number per batch."""

    def __init__(self, seed: int) -> None:
        self.generator = rade.data.WorkerGenerator(seed)

    def __call__(self, batch: Data) -> Data:
        batch.drawn = torch.rand(1, generator=self.generator())
        return batch


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_every_way_to_start_workers_gives_the_same_batches_and_draws_of_its_own(start: str):
    """Persistent workers share the count of passes with the parent, however they were started."""
    options = {"num_workers": 2, "multiprocessing_context": start, "persistent_workers": True}
    alone, workers = loader([4, 3]), loader([4, 3], transform=Drawn(0), **options)
    first, second = list(workers), list(workers)
    assert same(signature(first), signature(alone))
    assert same(signature(second), signature(alone))
    assert not same(signature(first), signature(second))
    assert len({float(batch.drawn) for batch in first + second}) == 16


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # PyTorch's own way of unpacking a CSR matrix
def test_sparse_features_and_empty_tensors_reach_spawned_workers():
    """Two tensors on the same memory and an empty one: PyTorch's own way of sending them fails."""
    data = rade.data.load("csbm", nodes=300, content=rade.data.Words(60)).graphs[0]
    data.twice, data.empty = data.y, torch.empty(300, 0)
    options = {
        "backend": "builtin",
        "sampling": rade.data.Sampling(bidirectional=False),
        "num_workers": 1,
        "multiprocessing_context": "spawn",
    }
    for batch in rade.data.neighbor_loader(data, [3], 100, **options):
        assert batch.x.layout is torch.sparse_csr
        assert torch.equal(batch.x.to_dense(), data.x.to_dense()[batch.n_id])
        assert torch.equal(batch.twice, data.y[batch.n_id])
        assert batch.empty.shape == (batch.num_nodes, 0)


@pytest.mark.parametrize("disjoint", [False, True])
def test_a_pickled_sampler_draws_the_same(disjoint: bool):
    from torch_geometric.sampler import NodeSamplerInput

    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 1, 1, 1, 1]])
    sampler = rade.data.VectorisedNeighborSampler(Neighborhoods.of(edge_index, 6), [2, 2], disjoint=disjoint, seed=5)
    sampler.passes += 3
    inputs = NodeSamplerInput(None, torch.tensor([1, 0]))
    one, other = (s.sample_from_nodes(inputs) for s in (sampler, pickle.loads(pickle.dumps(sampler))))
    assert torch.equal(one.node, other.node)
    assert torch.equal(one.row, other.row)


def draws(start: str | None, seed: int = 0, passes: int = 1, persistent: bool = False) -> list[float]:
    options = {"num_workers": 2, "multiprocessing_context": start} if start else {}
    transform = Drawn(seed)
    transform.generator()  # made before the workers are: a plain generator would be the same in all of them
    batches = loader([2], transform=transform, persistent_workers=persistent, **options)
    return [float(batch.drawn) for _ in range(passes) for batch in batches]


def test_draws_differ_between_passes_and_repeat_with_the_seed():
    for persistent in (False, True):
        found = draws("fork", passes=2, persistent=persistent)
        assert len(set(found)) == 16
        assert draws("fork", passes=2, persistent=persistent) == found
    assert not set(draws("fork", seed=1)) & set(found)
    assert len(set(draws(None, passes=2))) == 16


class Views:
    """Eight views of a graph, drawn where they are asked for."""

    def __init__(self) -> None:
        import rade

        edge_index = rade.data.load("csbm", nodes=300).graphs[0].edge_index
        self.graph, self.rates = rade.Graph.from_edge_index(edge_index, num_nodes=300), rade.Rates(0.5, 0.0)
        self.generator = rade.data.WorkerGenerator()

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        import rade

        return rade.sample_view(self.graph, self.rates, self.generator()).kept


def test_forked_workers_draw_different_views():
    views = DataLoader(Views(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert len({tuple(kept.tolist()) for kept in views}) == 8
