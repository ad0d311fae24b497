"""What people's own models and training loops do around a wrapped model: nothing is silently wrong."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import ChebConv, GCNConv, GraphConv, LightGCN
from torch_geometric.utils import add_self_loops

import rade
from zoo import normal, random_edges, seeded

NODES = 60
X, EDGES = normal(NODES, 5), random_edges(NODES, 120)
LABELS = torch.arange(NODES) % 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head, self.scale = GCNConv(5, 8), nn.Linear(8, 3), 1.0

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        out: Tensor = self.scale * self.head(self.conv(x, edge_index).relu())
        return out

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()
        self.head.reset_parameters()


def test_weights_made_from_the_edges_inside_a_model_are_those_of_the_edges():
    class Weighing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(5, 3)

        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            edges = edge_index if isinstance(edge_index, Tensor) else edge_index.graph.given
            weight = (x[edges[0], 0] - 2 * x[edges[1], 0]).exp().clamp(0.1, 10)
            out: Tensor = self.conv(x, edge_index, weight)
            return out

    shuffled = EDGES[:, torch.randperm(EDGES.shape[1], generator=torch.Generator().manual_seed(0))]
    plain = seeded(Weighing).eval()
    model = rade.RADE(copy.deepcopy(plain)).eval()
    torch.testing.assert_close(model(X, shuffled), plain(X, shuffled), rtol=1e-4, atol=1e-5)


def test_edges_with_loops_have_no_order_to_give_back():
    with pytest.raises(ValueError, match="came with 60 self-loops, which a graph does not keep"):
        _ = rade.Graph.from_edge_index(add_self_loops(EDGES)[0]).given


@pytest.mark.parametrize("use", [lambda e: torch.cat([e, e]), lambda e: torch.flip(e, [0]), lambda e: torch.stack([e])])
def test_functions_of_torch_say_what_travels(use):
    class Touching(Net):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            use(edge_index)
            return super().forward(x, edge_index)

    with pytest.raises(TypeError, match=r"takes no 'FreshViews': RADE passes a graph.*\.graph\.given"):
        rade.RADE(Touching()).train()(X, EDGES)


def test_a_model_may_ask_where_its_graph_lives():
    class Asking(Net):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return super().forward(x.to(edge_index.device), edge_index)

    assert rade.RADE(Asking()).train()(X, EDGES).shape == (NODES, 3)


def test_what_is_set_on_the_wrapper_is_set_where_it_is_read():
    model = rade.RADE(Net()).eval()
    before = model(X, EDGES)
    model.scale = 100.0
    torch.testing.assert_close(model(X, EDGES), 100 * before)
    model.head = nn.Linear(8, 10)
    assert model(X, EDGES).shape == (NODES, 10)
    assert not [name for name, _ in model.named_parameters() if name.startswith("head")]
    model.note = "mine"
    assert "note" in model.__dict__
    del model.scale
    assert not hasattr(model.wrapped, "scale")


def test_a_subclass_keeps_what_it_sets():
    class Own(rade.RADE):
        def __init__(self, net: nn.Module) -> None:
            super().__init__(net)
            self.head = nn.Linear(3, 1)

    model = Own(Net()).eval()
    assert model(X, EDGES).shape == (NODES, 3)
    assert model.head.out_features == 1


def test_methods_of_the_wrapped_model_are_not_overwritten():
    class Losing(Net):
        def loss(self) -> float:
            return 0.0

    model = rade.RADE(Losing())
    model.loss = nn.MSELoss()
    assert isinstance(model.loss, nn.MSELoss)
    assert "loss" not in dict(model.wrapped.named_children())


def test_only_a_model_that_can_be_reset_is():
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(5, 3)

        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            out: Tensor = self.conv(x, edge_index)
            return out

    assert not hasattr(rade.RADE(Plain()), "reset_parameters")
    assert hasattr(rade.RADE(Net()), "reset_parameters")


def test_reset_parameters_takes_the_rates_along():
    model = rade.RADE(Net(), rule=rade.GradNorm(lr=0.1), density=0.2)
    first = {name: value.clone() for name, value in model.controller.state_dict().items()}
    for _ in range(3):
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        model.adapt()
    assert model.rates.p != 0.5
    model.reset_parameters()
    after = model.controller.state_dict()
    assert all(torch.equal(after[name], first[name]) or (after[name] != after[name]).all() for name in first)
    assert model.rates == rade.Rates(0.5, 0.1)


def test_a_look_without_gradients_is_no_training_step():
    model = rade.RADE(Net(), rule=rade.GradNorm(lr=0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.follow(optimizer)
    loss = cross_entropy(model.train()(X, EDGES), LABELS)
    with torch.no_grad():
        model(X, EDGES)  # pseudo-labels, say
    loss.backward()
    optimizer.step()
    assert model.rates.p != 0.5


def test_a_rate_step_that_fails_can_be_tried_again():
    model = rade.RADE(Net(), rule=rade.GradNorm(lr=0.1))
    cross_entropy(model.train()(X, EDGES), LABELS).backward()
    with pytest.raises(ValueError, match="999"):
        model.adapt(labelled=torch.tensor([999]))
    model.adapt()
    assert model.rates.p != 0.5


def test_a_layer_on_the_clean_graph_gets_the_edges_in_their_order():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.other = GCNConv(5, 5), Unknown(5, 3)

        def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor) -> Tensor:
            out: Tensor = self.other(self.conv(x, edge_index, edge_weight), edge_index, edge_weight)
            return out

    class Unknown(GCNConv):
        pass

    shuffled = EDGES[:, torch.randperm(EDGES.shape[1], generator=torch.Generator().manual_seed(0))]
    weight = torch.rand(EDGES.shape[1], generator=torch.Generator().manual_seed(1)) + 0.5
    plain = seeded(Two).eval()
    model = rade.RADE(copy.deepcopy(plain), strict=False).eval()
    expected = plain(X, shuffled, weight)
    for graph in (shuffled, rade.Graph.from_edge_index(shuffled)):
        torch.testing.assert_close(model(X, graph, weight), expected, rtol=1e-4, atol=1e-5)


def test_parameters_of_the_bare_model_say_where_they_belong():
    net = Net()
    state, model = net.state_dict(), rade.RADE(net)
    with pytest.raises(RuntimeError, match=r"model\.wrapped\.load_state_dict"):
        model.load_state_dict(state)
    model.wrapped.load_state_dict(state)
    model.load_state_dict(model.state_dict())


def test_nodes_without_edges_at_the_end_of_a_table():
    plain = seeded(lambda: LightGCN(NODES + 2, 8, 2)).eval()
    model = rade.RADE(copy.deepcopy(plain)).eval()
    with pytest.raises(ValueError, match=rf"features of {NODES + 2} nodes on a graph of {NODES}.*num_nodes"):
        model(EDGES)
    graph = rade.Graph.from_edge_index(EDGES, num_nodes=NODES + 2)
    torch.testing.assert_close(model(graph, EDGES), plain(EDGES, EDGES))


def test_features_in_coordinates_are_refused():
    with pytest.raises(ValueError, match=r"features came as a matrix in torch.sparse_coo; pass x.to_sparse_csr"):
        rade.RADE(pyg.GCN(5, 8, 2, 3)).train()(X.to_sparse(), EDGES)


@pytest.mark.parametrize(
    "conv", [lambda: GCNConv(5, 3, normalize=False), lambda: GraphConv(5, 3)], ids=["GCNConv", "GraphConv"]
)
def test_loops_with_weights_are_refused(conv):
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv()

        def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor) -> Tensor:
            out: Tensor = self.conv(x, edge_index, edge_weight)
            return out

    looped = add_self_loops(EDGES)[0]
    with (
        pytest.warns(UserWarning, match="60 self-loops"),
        pytest.raises(ValueError, match="60 self-loops, whose weights are summed like edges"),
    ):
        rade.RADE(Weighted()).eval()(X, looped, torch.rand(looped.shape[1]))


def test_loops_that_a_layer_leaves_out_itself_need_no_warning():
    plain = seeded(lambda: pyg.Sequential("x, edge_index", [(ChebConv(5, 3, K=3), "x, edge_index -> x")])).eval()
    model, looped = rade.RADE(copy.deepcopy(plain)).eval(), add_self_loops(EDGES)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model(X, looped)
    torch.testing.assert_close(found, plain(X, looped), rtol=1e-4, atol=1e-5)


def test_a_warning_of_loops_points_to_the_caller():
    model = rade.RADE(pyg.Sequential("x, edge_index", [(GraphConv(5, 3), "x, edge_index -> x")])).train()
    with pytest.warns(UserWarning, match="60 self-loops") as said:
        model(X, add_self_loops(EDGES)[0])
    assert said[0].filename == __file__


def test_a_first_graph_of_another_density_is_told():
    model = rade.RADE(Net()).train()
    small = rade.Graph.from_edge_index(torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1]]))
    model(normal(3, 5), small)
    with pytest.warns(UserWarning, match="follows from the density that was given, or from that of the first"):
        model(X, EDGES)
