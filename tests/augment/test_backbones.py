"""The paper's backbones against their parts."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import global_add_pool, global_mean_pool
from torch_geometric.utils import erdos_renyi_graph

from rade.graph.graph import Graph
from rade.nn.backbones import ATOM_FEATURE_SIZES, BACKBONES, AtomEncoder, build_backbone


@pytest.fixture(scope="module")
def graph():
    torch.manual_seed(0)
    return Graph.from_edge_index(erdos_renyi_graph(30, 0.2), 30)


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("layers", [1, 3])
def test_a_backbone_has_its_depth_and_width_on_any_adjacency(name, layers, graph):
    net = build_backbone(name, 6, 8, 4, layers=layers)
    assert len(net.convolutions) == layers
    x = torch.randn(30, 6)
    assert net(x, graph).shape == (30, 4)
    assert_close(net(x, graph), net(x.to_sparse_csr(), graph), rtol=1e-4, atol=1e-5)
    assert_close(net(x, graph), net(x, graph.edge_index), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_projection_comes_before_the_first_convolution(name, graph):
    net = build_backbone(name, 6, 8, 4, projection=True)
    x = torch.randn(30, 6)
    map_ = net.encoder[1].linear
    assert map_.weight.shape == (8, 6)
    projected = net(x, graph)
    assert_close(projected, net(x.to_sparse_csr(), graph), rtol=1e-4, atol=1e-5)
    net.encoder = torch.nn.Identity()
    assert_close(projected, net(map_(x), graph), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sgc", "gin-lin"])
def test_linear_backbones_are_linear(name, graph):
    net = build_backbone(name, 6, 8, 4).double()
    one, two = torch.randn(2, 30, 6, dtype=torch.double)
    zero = net(torch.zeros_like(one), graph)
    assert_close(net(one + two, graph) - zero, net(one, graph) + net(two, graph) - 2 * zero)


@pytest.mark.parametrize(("pool", "pooling"), [("sum", global_add_pool), ("mean", global_mean_pool)])
def test_pooling_comes_before_the_head(pool, pooling, graph):
    batch = torch.zeros(30, dtype=torch.long)
    net = build_backbone("gcn", 6, 8, 4, pool=pool)
    x = torch.randn(30, 6)
    hidden = net.convolutions[1](net.convolutions[0](x, graph).relu(), graph).relu()
    assert_close(net(x, graph, batch), net.head(pooling(hidden, batch)))


def test_the_atom_encoder_is_that_of_ogb():
    """The same sum of embeddings, given the same tables."""
    module = pytest.importorskip("ogb.graphproppred.mol_encoder")
    ours, theirs = AtomEncoder(16), module.AtomEncoder(16)
    for rows, table in zip(torch.split(ours.weight.data, list(ATOM_FEATURE_SIZES)), theirs.atom_embedding_list):
        rows.copy_(table.weight.data)
    x = torch.stack([torch.randint(size, (50,)) for size in ATOM_FEATURE_SIZES], dim=1)
    assert_close(ours(x), theirs(x))
