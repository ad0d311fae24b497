"""What a call brings: batch vectors wherever they stand, data objects that a model changes, several models, threads."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

import rade
from zoo import LABELS, normal, random_edges, seeded, training_step, wrapped

# Two graphs of ten nodes; features of the second alone, so that whatever reaches the first has come over an added edge.
EDGES = torch.cat([random_edges(10, 15), random_edges(10, 15) + 10], 1)
BATCH = torch.arange(2).repeat_interleave(10)
X = (BATCH == 1).float()[:, None].expand(20, 3)
ONE, OTHER = (Data(x=x, edge_index=EDGES[:, EDGES[0] < 10]) for x in (torch.zeros(10, 3), torch.ones(10, 3)))
WHOLE = Batch.from_data_list([ONE, OTHER])
MATRIX = torch.zeros(20, 20).index_put((EDGES[1], EDGES[0]), torch.ones(())).to_sparse()
MIXED = torch.randperm(20, generator=torch.Generator().manual_seed(0))  # the place of each node


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = seeded(lambda: pyg.GraphConv(3, 3, bias=False))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.encoder(x, edge_index)


class OfData(Net):
    def forward(self, data: Data, *, batch: Tensor | None = None) -> Tensor:
        return self.encoder(data.x, data.edge_index)


class Delegating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.net(*args, **kwargs)


class OfMatrix(Net):
    """As PyG's ToSparseTensor leaves a data object: with adj_t in the place of edge_index."""

    def forward(self, data: Data) -> Tensor:
        return self.encoder(data.x, data.adj_t)


class OfPairs(Net):
    """Two data objects in one call; the first rows of each are what the other must not reach."""

    def forward(self, one: Data, other: Data) -> Tensor:
        return torch.cat([self.encoder(data.x, data.edge_index)[:10] for data in (one, other)])


class InList(OfData):
    def forward(self, inputs: Any) -> Tensor:
        return super().forward(inputs[0])


def adding(net: nn.Module, variant: str = "of") -> rade.RADE:
    return wrapped(net, variant, rule=rade.Constant(0.2, 1.0)).train()


CALLS = {
    "by name": (Net, lambda: ((X, EDGES), {"batch": BATCH})),
    "by place": (Net, lambda: ((X, EDGES, BATCH), {})),
    "beside data": (OfData, lambda: ((Data(x=X, edge_index=EDGES),), {"batch": BATCH})),
    "compiled": (lambda: torch.compile(Net(), backend="eager"), lambda: ((X, EDGES, BATCH), {})),
    "delegated": (Delegating, lambda: ((X, EDGES, BATCH), {})),
    "in a list": (InList, lambda: (([WHOLE.clone(), torch.zeros(2)],), {})),
    "of a pair": (OfPairs, lambda: ((WHOLE.clone(), Batch.from_data_list([ONE, ONE, ONE])), {})),
    "in the data": (OfData, lambda: ((WHOLE.clone(),), {})),
    "without edge_index": (OfMatrix, lambda: ((Data(x=X, adj_t=MATRIX, batch=BATCH),), {})),
    "in any order of nodes": (Net, lambda: ((X[MIXED.argsort()], MIXED[EDGES], BATCH[MIXED.argsort()]), {})),
}


@pytest.mark.parametrize("name", CALLS)
def test_graphs_stay_apart_wherever_the_batch_vector_stands(name):
    build, call = CALLS[name]
    (model, (args, kwargs)), first = (adding(build()), call()), MIXED[:10] if "order" in name else slice(10)
    with torch.no_grad():
        assert not any(model(*args, **kwargs)[first].any() for _ in range(20))


def test_the_same_edges_with_other_boundaries_are_another_graph():
    model = rade.RADE(Net(), "ofs", density=0.3).eval()
    one, two = model(X, EDGES, None), model(X, EDGES, BATCH)
    assert not torch.allclose(one, two)
    assert torch.equal(model(X, EDGES, None), one)


def test_other_nodes_of_the_same_number_are_none_of_the_batch():
    """Bonds, say, as many as atoms by chance: the vector of atoms splits their edges. Training goes on."""

    class AtomsAndBonds(Net):
        def forward(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: Tensor) -> Tensor:
            return self.encoder(x, edge_index) + self.encoder(x, bonds)

    model, ring = adding(AtomsAndBonds()), torch.stack([torch.arange(20), torch.arange(20).roll(1)])
    with pytest.warns(UserWarning, match="no batch vector of this call belongs to, .* or edges between the graphs"):
        model(X, EDGES, torch.cat([ring, ring.flip(0)], 1), BATCH)
    model(X, EDGES, torch.cat([ring, ring.flip(0)], 1), BATCH)  # it is said once


def test_a_part_that_is_called_by_itself_is_told():
    """It has views, but nobody knows its batch vector, nor repeats it for rates that adapt."""
    model = adding(Net())
    with pytest.warns(UserWarning, match="GraphConv was called in a part of the model"):
        assert not torch.equal(model.encoder(X, EDGES), model.encoder(X, EDGES))
    model.wrapped(X, EDGES, BATCH)


class Writing(nn.Module):
    """Puts its features back into the data, as configurable frameworks do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv = nn.Linear(4, 4), pyg.GCNConv(4, 4)

    def forward(self, data: Data) -> Tensor:
        data.x = 3.0 * self.linear(data.x)
        data.x = self.conv(data.x, data.edge_index)
        return data.x


class Reading(Writing):
    def forward(self, data: Data) -> Tensor:
        return super().forward(copy.copy(data))


@pytest.mark.parametrize("rule", [rade.GradNorm(), rade.NoiseRatio()], ids=lambda rule: type(rule).__name__)
def test_a_call_is_repeated_with_what_it_was_given(rule):
    """Rate steps, ensembles and `uncertainty` call the model again: not on what it has made of its features."""
    found, edges = [], random_edges(30, 60)
    for kind in (Writing, Reading):
        model = wrapped(seeded(kind), rule=rule)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.follow(optimizer)
        for _ in range(3):
            training_step(model, Data(x=normal(30, 4), edge_index=edges), labels=LABELS[:30])
            optimizer.step()
        data = Data(x=normal(30, 4), edge_index=edges)
        drawn = model.eval().by(rade.Ensemble(4))(data)
        torch.testing.assert_close(data.x, normal(30, 4))
        found.append((model.rates, drawn, model.uncertainty(data, views=4).sampled_std))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(found[0][1:], found[1][1:])
    assert rade.check(Writing(), Data(x=normal(30, 4), edge_index=edges)).adapts


def test_whole_graphs_one_by_one_are_those_of_a_batch():
    """A batch vector says so, also of one graph: RADE-OFS adds as much to it at inference as in training."""
    model = rade.RADE(seeded(lambda: OfData()), "ofs", rule=rade.Constant(0.2, 1.0), density=0.2).train()
    for size in (6, 30):
        model(Batch.from_data_list([Data(x=torch.ones(size, 3), edge_index=random_edges(size, size))]))
    small, large = (Data(x=torch.ones(size, 3), edge_index=random_edges(size, size)) for size in (6, 30))
    with torch.no_grad():
        alone = model.eval()(Batch.from_data_list([small]))
        torch.testing.assert_close(model(Batch.from_data_list([small, large]))[:6], alone)


def test_a_layer_of_two_models():
    """It follows the last one; models within models are refused."""
    net = pyg.GCN(3, 8, 2, 2)
    first = adding(net)
    adding(nn.Sequential(net))
    told = "GCNConv was called in a part", "GCNConv of this model follow another rade.RADE model"
    with pytest.warns(UserWarning, match=told[0]), pytest.warns(UserWarning, match=told[1]):
        first(X, EDGES)
    with pytest.raises(ValueError, match="a part of it, is wrapped in RADE already"):
        rade.RADE(nn.ModuleList([first]))


def test_nothing_is_kept_of_batch_vectors_that_are_gone():
    model = adding(Net())
    for _ in range(5):
        model(X, EDGES, BATCH.clone())
    assert len(model._context._graphs) <= 1


def test_predictions_in_several_threads():
    """Each is a pass of its own: RADE-OFS takes rates, and graphs apart, by the pass."""
    model = adding(Net(), "ofs")
    model(X, EDGES, BATCH)
    model.eval()
    sizes = [20 * k for k in range(1, 9)]
    calls = [(normal(n, 3, seed=n), random_edges(n, n), torch.arange(n // 20).repeat_interleave(20)) for n in sizes]
    calls = [(x, edges[:, batch[edges[0]] == batch[edges[1]]], batch) for x, edges, batch in calls]

    @torch.no_grad()
    def predict(call: tuple[Tensor, ...]) -> Tensor:
        return model(*call)

    expected = [predict(call) for call in calls]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            torch.testing.assert_close(list(pool.map(predict, calls)), expected)


def test_other_ways_to_predict_in_several_threads():
    """None reaches the predictions of the others, nor stays when all are done."""
    model = adding(Net(), "ofs")
    model(X, EDGES, BATCH)
    ways = [rade.Expected(rates=rade.Rates(0.0, 0.1 * k)) for k in range(4)]
    model.eval()

    @torch.no_grad()
    def predict(way: rade.Expected) -> Tensor:
        return model.by(way)(X, EDGES, BATCH)

    expected = [predict(way) for way in ways]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            torch.testing.assert_close(list(pool.map(predict, ways)), expected)
    assert model._context.setting.rates is None


def test_evaluation_is_differentiated_by_functions():
    """`torch.func` takes RADE-OF for the plain model, also on a graph that was trained on; views it does not know."""
    plain = seeded(lambda: pyg.GCN(3, 8, 2, 2))
    model, x = adding(copy.deepcopy(plain)), normal(20, 3)
    model(x, EDGES)
    slopes = [torch.func.grad(lambda x, net=net: net(x, EDGES).sum())(x) for net in (model.eval(), plain.eval())]
    torch.testing.assert_close(*slopes)
    with pytest.raises(RuntimeError, match=r"torch.func transforms .* the plain model alone.* call model.eval\(\)"):
        torch.func.grad(lambda x: model.train()(x, EDGES).sum())(x)


def test_no_nodes_in_layers_of_stacks():
    model = rade.RADE(pyg.ARMAConv(3, 2, num_stacks=2)).train()
    model(X, EDGES)
    assert model(X[:0], EDGES[:, :0]).shape == (0, 2)
