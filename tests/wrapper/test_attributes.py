"""The wrapper can be seen through: attributes, methods, outputs of several parts, and other libraries' tools."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import GAE, GCN, GCNConv
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import to_torch_csr_tensor

import rade
from adapting import adapting
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 40
X, EDGES = normal(NODES, 8), random_edges(NODES, 120)
LABELS = torch.arange(NODES) % 3


class Coder(torch.nn.Module):
    """Forward and another method that takes the graph."""

    dimension = 6

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.head = GCNConv(8, 6), GCNConv(6, 6), torch.nn.Linear(6, 3)

    def encode(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.head(self.encode(x, edge_index))

    def reset_parameters(self) -> None:
        self.conv1.reset_parameters()


def test_attributes_and_methods_reach_the_wrapped_model():
    model = adapting(seeded(Coder))
    assert model.conv1 is model.wrapped.conv1
    assert model.dimension == 6
    before = model.conv1.lin.weight.clone()
    model.reset_parameters()
    assert not torch.equal(before, model.conv1.lin.weight)
    assert model.decode(X, EDGES).shape == (EDGES.shape[1],)
    with pytest.raises(AttributeError, match="'Coder' object has no attribute 'conv3'"):
        _ = model.conv3
    assert not hasattr(model, "conv3")


def test_methods_that_take_the_graph_run_on_views_if_asked():
    plain, model = adapting(seeded(Coder)), adapting(seeded(Coder), methods=["encode"])
    with pytest.warns(UserWarning, match=r"encode\(\) takes the graph.*methods=\['encode'\]"):
        same = [plain.train().encode(X, EDGES) for _ in range(2)]
    assert torch.equal(*same)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        different = [model.train().encode(X, EDGES) for _ in range(2)]
        clean = model.eval().encode(X, edge_index=EDGES)
    assert not torch.allclose(*different)
    torch.testing.assert_close(clean, same[0])
    with pytest.raises(ValueError, match="methods names 'embed', but Coder has no such method"):
        adapting(Coder(), methods=["embed"])


def test_the_autoencoder_of_pyg():
    """Its own loop: encode, then a loss of its own; forward takes *args, where the graph is told by its form."""
    model = rade.RADE(seeded(lambda: GAE(GCN(8, 6, 2))), methods=["encode"], rule=rade.Constant(0.3, 0.2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model.recon_loss(model.train().encode(X, EDGES), EDGES)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < sum(losses[:5])
    torch.testing.assert_close(model.eval()(X, EDGES), model.encode(X, EDGES))


def test_outputs_of_several_parts():
    class Both(Net):
        def forward(self, x: Tensor, edge_index: Any) -> tuple[Tensor, Tensor]:
            hidden = self.convs[0](x, edge_index)
            return self.head(self.convs[1](hidden.relu(), edge_index)), hidden

    model = adapting(seeded(lambda: Both(LAYERS["GCNConv"]))).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.follow(optimizer)
    for _ in range(2):
        logits, hidden = model(X, EDGES)
        (cross_entropy(logits[:20], LABELS[:20]) + 0.1 * hidden.square().mean()).backward()
        optimizer.step()
    assert int(model.rate_state.steps) == 2
    many = adapting(rade.revert(model), inference=rade.Ensemble(3)).eval()
    assert [part.shape for part in many(X, EDGES)] == [(NODES, 3), (NODES, 6)]

    class Named(Net):
        def forward(self, x: Tensor, edge_index: Any) -> dict[str, Tensor]:
            return {"logits": super().forward(x, edge_index)}

    model = adapting(seeded(lambda: Named(LAYERS["GCNConv"]))).train()
    cross_entropy(model(X, EDGES)["logits"], LABELS).backward()
    with pytest.raises(ValueError, match=r"expected logits, or a tuple whose first entry they are.*got dict"):
        model.adapt(X, EDGES)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_can_be_wrapped():
    torch._dynamo.reset()
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    expected = net(X, EDGES)
    model = adapting(torch.compile(net, backend="eager"))
    different = [model.train()(X, EDGES) for _ in range(2)]
    assert not torch.allclose(*different)
    cross_entropy(different[1], LABELS).backward()
    model.adapt()
    assert int(model.rate_state.steps) == 1
    torch.testing.assert_close(model.eval()(X, EDGES), expected)


def test_explainers_of_pyg_see_the_plain_layers():
    found = []
    for wrap in (lambda net: net, rade.RADE):
        model = wrap(seeded(lambda: Net(LAYERS["GCNConv"]))).eval()
        config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
        explainer = Explainer(model, GNNExplainer(epochs=5), "model", model_config=config, edge_mask_type="object")
        torch.manual_seed(0)
        found.append(explainer(X, EDGES, index=3).edge_mask)
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_sparse_matrices_get_a_sentence():
    with pytest.raises(ValueError, match=r"came as a sparse matrix \(adj_t\).*to_edge_index"):
        adapting(GCN(8, 6, 2, 3))(X, to_torch_csr_tensor(EDGES, size=(NODES, NODES)))


def test_an_edge_index_of_pyg_is_a_tensor():
    index = EdgeIndex(EDGES, sparse_size=(NODES, NODES))
    model = rade.RADE(seeded(lambda: GCN(8, 6, 2, 3)), rule=rade.Constant(0.0, 0.0))
    torch.testing.assert_close(model.train()(X, index), model(X, EDGES))


def test_sampled_neighborhoods_are_directed():
    """What a NeighborLoader gives by default has one direction only: the sentence says how to get both."""
    data = Data(x=X, edge_index=EDGES[:, EDGES[0] < EDGES[1]])
    with pytest.raises(
        ValueError, match=r"both directions of every edge.*to_undirected.*subgraph_type='bidirectional'"
    ):
        adapting(GCN(8, 6, 2, 3)).train()(data.x, data.edge_index)
    both = ToUndirected()(data)
    adapting(GCN(8, 6, 2, 3)).train()(both.x, both.edge_index)
