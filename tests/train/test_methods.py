"""Laws of the backbones, of the methods and of their registry."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data

import rade
from rade import Graph
from rade.train.backbones import ATOM_FEATURE_SIZES, BACKBONES, AtomEncoder, build_backbone
from rade.train.learner import BackboneLearner, Context, Step
from rade.train.methods import METHODS, make
from zoo import EDGES, FEATURES, NODES, X, seeded

GRAPH = Graph.from_edge_index(EDGES, NODES)


class Called(BackboneLearner):
    """A learner that takes features and a graph."""

    def forward(self, x, graph):
        return super().forward(Step(Data(x=x, num_nodes=graph.num_nodes), torch.empty(0), whole=graph))


def backbone_of(name="gcn"):
    return seeded(lambda: build_backbone(name, FEATURES, 8, 3))


def under(method, net, **options):
    """A backbone under a method, in training."""
    value, draws = make(method, **options), torch.Generator().manual_seed(0)
    return Called(value.around(net, Context(draws, GRAPH.density, "multiclass", "none")), draws, value).train()


@pytest.mark.parametrize("method", [name for name in METHODS if "ofs" not in name and name != "virtual-node"])
def test_evaluation_is_the_clean_backbone(method):
    """Every method but RADE-OFS, which keeps expected additions, predicts with the backbone as it is."""
    assert_close(under(method, backbone_of()).eval()(X, GRAPH), backbone_of()(X, GRAPH))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", METHODS)
def test_every_backbone_trains_under_every_method(method, backbone):
    learner = under(method, backbone_of(backbone))
    learner(X, GRAPH).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in learner.parameters())


def test_drop_node_zeroes_embedded_atoms_not_their_categories():
    """A dropped atom has no embedding at all, and the largest category of each feature survives scaling."""
    net = build_backbone("gcn", 9, 8, 2, encoder="atom")
    learner = under("drop-node", net, rate=0.5)
    largest = torch.tensor(ATOM_FEATURE_SIZES).sub(1).expand(NODES, -1)
    encoded = net.before(net.encoder(largest))
    assert set((encoded / net.encoder(largest))[:, 0].round(decimals=3).tolist()) == {0.0, 2.0}
    assert learner(largest, GRAPH).isfinite().all()


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_drop_message_on_gin_thins_the_features_not_their_projection(layout):
    """GIN's message is x_j: with one feature, a projection to two columns loses both or neither."""
    x = torch.ones(NODES, 1)
    net = build_backbone("gin-lin", 1, 2, 3)
    net.convolutions[0].nn[0].weight.data.fill_(1.0)
    net.convolutions[0].nn[0].bias.data.zero_()
    learner = under("drop-message", net, rate=0.5)
    seen = []
    net.convolutions[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    learner(x if layout == "dense" else x.to_sparse_csr(), GRAPH)
    assert_close(seen[0][:, 0], seen[0][:, 1])


def test_rade_is_the_wrapper_as_it_comes():
    """Equal views and equal corrections for equal generators."""
    model = rade.RADE(backbone_of(), generator=torch.Generator().manual_seed(0), density=GRAPH.density).train()
    assert_close(under("rade", backbone_of())(X, GRAPH), model(X, GRAPH.edge_index))


def test_the_atom_encoder_is_that_of_ogb():
    """The same sum of embeddings, given the same tables."""
    module = pytest.importorskip("ogb.graphproppred.mol_encoder")
    ours, theirs = AtomEncoder(16), module.AtomEncoder(16)
    for rows, table in zip(torch.split(ours.weight.data, list(ATOM_FEATURE_SIZES)), theirs.atom_embedding_list):
        rows.copy_(table.weight.data)
    x = torch.stack([torch.randint(size, (50,)) for size in ATOM_FEATURE_SIZES], dim=1)
    assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_backbone_takes_any_features_and_adjacency_and_computes_some_rows(backbone, projection, layout):
    """On a long path few nodes are near: every layer computes what the next one hears, with the same gradients."""
    hops = torch.stack([torch.arange(NODES - 1), torch.arange(1, NODES)])
    path = Graph.from_edge_index(torch.cat([hops, hops.flip(0)], 1), NODES)
    x, rows = X.double(), torch.tensor([11, 3])
    net = build_backbone(backbone, FEATURES, 8, 3, layers=3, projection=projection).double()
    given = x if layout == "dense" else x.to_sparse_csr()
    few, whole = net(given, path, rows=rows, local=True), net(x, path.edge_index)[rows]
    assert (len(net.convolutions), few.shape) == (3, (2, 3))
    assert_close(few, whole)
    assert_close(*(torch.autograd.grad(out.square().sum(), net.parameters()) for out in (few, whole)))
