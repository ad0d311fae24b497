"""Laws of the backbones, of the methods and of their registry."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import rade
from rade import Graph
from rade.train.backbones import ATOM_FEATURE_SIZES, BACKBONES, AtomEncoder, build_backbone
from rade.train.learner import BackboneLearner, Context, Step
from rade.train.methods import METHODS, make

NODES, FEATURES = 40, 6


def seeded():
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def graph():
    torch.manual_seed(0)
    return Graph.from_edge_index(erdos_renyi_graph(NODES, 0.15), NODES)


@pytest.fixture(scope="module")
def x():
    return torch.randn(NODES, FEATURES, generator=seeded())


class Called(BackboneLearner):
    """A learner that takes features and a graph."""

    def forward(self, x, graph):
        return super().forward(Step(Data(x=x, num_nodes=graph.num_nodes), torch.empty(0), whole=graph))


def under(method, net, graph, **options):
    """A backbone under a method."""
    value, draws = make(method, **options), seeded()
    return Called(value.around(net, Context(draws, graph.density, "multiclass", "none")), draws, value)


def learner_of(method, graph, backbone="gcn"):
    torch.manual_seed(0)
    return under(method, build_backbone(backbone, FEATURES, 8, 3), graph)


@pytest.mark.parametrize("method", [name for name in METHODS if "ofs" not in name and name != "virtual-node"])
def test_evaluation_is_the_clean_backbone(method, graph, x):
    """Every method but RADE-OFS, which keeps expected additions, predicts with the backbone as it is."""
    learner = learner_of(method, graph).eval()
    torch.manual_seed(0)
    assert_close(learner(x, graph), build_backbone("gcn", FEATURES, 8, 3)(x, graph))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", METHODS)
def test_every_backbone_trains_under_every_method(method, backbone, graph, x):
    learner = learner_of(method, graph, backbone).train()
    learner(x, graph).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in learner.parameters())


def test_drop_node_zeroes_embedded_atoms_not_their_categories(graph):
    """A dropped atom has no embedding at all, and the largest category of each feature survives scaling."""
    net = build_backbone("gcn", 9, 8, 2, encoder="atom")
    learner = under("drop-node", net, graph, rate=0.5).train()
    largest = torch.tensor(ATOM_FEATURE_SIZES).sub(1).expand(graph.num_nodes, -1)
    encoded = net.before(net.encoder(largest))
    assert set((encoded / net.encoder(largest))[:, 0].round(decimals=3).tolist()) == {0.0, 2.0}
    assert learner(largest, graph).isfinite().all()


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_drop_message_on_gin_thins_the_features_not_their_projection(layout, graph):
    """GIN's message is x_j: with one feature, a projection to two columns loses both or neither."""
    x = torch.ones(NODES, 1)
    net = build_backbone("gin-lin", 1, 2, 3)
    net.convolutions[0].nn[0].weight.data.fill_(1.0)
    net.convolutions[0].nn[0].bias.data.zero_()
    learner = under("drop-message", net, graph, rate=0.5).train()
    seen = []
    net.convolutions[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    learner(x if layout == "dense" else x.to_sparse_csr(), graph)
    assert_close(seen[0][:, 0], seen[0][:, 1])


def test_rade_is_the_wrapper_as_it_comes(graph, x):
    """Equal views and equal corrections for equal generators."""
    learner = learner_of("rade", graph).train()
    torch.manual_seed(0)
    model = rade.RADE(build_backbone("gcn", FEATURES, 8, 3), generator=seeded(), density=graph.density).train()
    assert_close(learner(x, graph), model(x, graph.edge_index))


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
def test_a_backbone_takes_any_features_and_adjacency_and_computes_some_rows(backbone, projection, layout, x):
    """On a long path few nodes are near: every layer computes what the next one hears, with the same gradients."""
    hops = torch.stack([torch.arange(NODES - 1), torch.arange(1, NODES)])
    path = Graph.from_edge_index(torch.cat([hops, hops.flip(0)], 1), NODES)
    x, rows = x.double(), torch.tensor([11, 3])
    net = build_backbone(backbone, FEATURES, 8, 3, layers=3, projection=projection).double()
    given = x if layout == "dense" else x.to_sparse_csr()
    few, whole = net(given, path, rows=rows, local=True), net(x, path.edge_index)[rows]
    assert (len(net.convolutions), few.shape) == (3, (2, 3))
    assert_close(few, whole)
    assert_close(*(torch.autograd.grad(out.square().sum(), net.parameters()) for out in (few, whole)))
