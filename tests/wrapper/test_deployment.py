"""Programs made of a model, by `torch.jit.trace`, `torch.export` and `torch.compile`, take any graph.

Those of RADE-OFS add its expected additions by plain operations.
"""

from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE, Sequential

import rade
from zoo import Ends, batch_of, normal, random_edges, seeded, stacked

pytestmark = pytest.mark.filterwarnings("ignore")  # tracing tells a lot about PyTorch itself
X, EDGES = normal(60, 8), random_edges(60, 120)
LARGER, OTHERS = normal(90, 8, seed=1), random_edges(90, 150)
ONE_WAY = OTHERS[:, OTHERS[0] < OTHERS[1]]
SHAPES = {"args": ({0: torch.export.Dim("nodes", min=2)}, {1: torch.export.Dim("edges", min=2)})}


class FirstTen(torch.nn.Module):
    """A pooled graph: ten nodes and the edges between them."""

    def forward(self, x, edge_index):
        return x[:10], edge_index[:, (edge_index < 10).all(0)]


def pooling() -> torch.nn.Module:
    steps = [(pyg.GraphConv(8, 8), "x, edge_index -> x"), (FirstTen(), "x, edge_index -> x, edge_index")]
    return Sequential("x, edge_index", [*steps, (pyg.GraphConv(8, 3), "x, edge_index -> x")])


KINDS = {
    "GCN": lambda: GCN(8, 16, 2, 3),
    "GraphSAGE": lambda: GraphSAGE(8, 16, 2, 3),
    "GIN": lambda: GIN(8, 16, 2, 3),
    "GraphConv": lambda: stacked(pyg.GraphConv(8, 3)),
    "GCN without loops": lambda: stacked(pyg.GCNConv(8, 3, add_self_loops=False)),
    "SG": lambda: stacked(pyg.SGConv(8, 3, 2)),
    "TAG": lambda: stacked(pyg.TAGConv(8, 3, 2)),
    "ARMA": lambda: stacked(pyg.ARMAConv(8, 3, 2, 2)),
    "Cluster": lambda: stacked(pyg.ClusterGCNConv(8, 3)),
    "pooling": pooling,
}


def shifting(build, **options) -> rade.RADE:
    model = rade.RADE(seeded(build), "ofs", rule=rade.Constant(0.3, 0.5), **options)
    model.train()(X, EDGES)
    return model.eval()


def traced(model: rade.RADE) -> Any:
    """As TensorBoard's add_graph does."""
    return torch.jit.trace(model, (X, EDGES), check_trace=False)


def exported(model: rade.RADE) -> Any:
    return torch.export.export(model, (X, EDGES), dynamic_shapes=SHAPES).module()


@torch.no_grad()
def same(program: Any, model: rade.RADE) -> None:
    """On the graph that it was made with, a larger one, a directed one, and one without edges to some nodes, or any."""
    few = [EDGES[:, :60], *[EDGES[:, :0]] * isinstance(program, torch.jit.ScriptModule)]
    for x, edges in ((X, EDGES), (LARGER, OTHERS), (LARGER, ONE_WAY), *((X, edges) for edges in few)):
        torch.testing.assert_close(program(x, edges), model(x, edges), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("how", "name"), [*((traced, name) for name in KINDS), *((exported, name) for name in ("GCN", "GraphSAGE", "GIN"))]
)
def test_a_program_shifts_as_the_model(how, name):
    model = shifting(KINDS[name])
    same(how(model), model)
    with torch.no_grad():
        shift = model(X, EDGES) - rade.revert(model)(X, EDGES)
    assert float(shift.abs().max()) > 0.01


def test_self_loops_of_the_graph_are_those_of_the_layer():
    """A GCN has one at every node, whether it is given or not; it is no neighbor."""
    model, loops = shifting(KINDS["GCN"]), torch.arange(0, 60, 7).expand(2, -1)
    program, edges = traced(model), torch.cat([loops, EDGES], 1)
    with torch.no_grad():
        torch.testing.assert_close(program(X, edges), model(X, edges), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(("how", "kind"), [(traced, GCN), (traced, GraphSAGE), (traced, GAT), (exported, GCN)])
def test_a_program_of_the_plain_model(how, kind, trained):
    """RADE-OF, also where RADE knows the graph of the example."""
    model = rade.RADE(seeded(lambda: kind(8, 16, 2, 3)))
    if trained:
        model.train()(X, EDGES)
    same(how(model.eval()), model)


@pytest.mark.parametrize("options", [{"density": 0.2}, {"correction": rade.Correction(moments="delta")}], ids=str)
def test_options_are_kept(options):
    model = shifting(KINDS["GCN without loops"], **options)
    same(traced(model), model)
    untrained = rade.RADE(seeded(KINDS["GCN"]), "ofs", **options).eval()
    same(traced(untrained), untrained)


def test_pooled_graphs_get_additions_as_in_training():
    """q is that of the pass, by its first graph: the same for all of its graphs."""
    model = shifting(pooling)
    for training, x, edges, factor in ((True, X, EDGES, 1), (False, X, EDGES, 1), (False, LARGER, OTHERS, 60 / 90)):
        with torch.no_grad(), model.train(training)._context.running() as present:
            model(x, edges)
        assert [graph.num_nodes for graph in present.distributions] == [len(x), 10]
        for views in present.distributions.values():
            assert float(views.rates.q) == pytest.approx(float(model.rates.q) * factor)


def test_graphs_of_a_batch_stay_apart():
    batches = [batch_of(*sizes) for sizes in ((20, 15, 25), (30,), (10, 40))]
    batches = [(data.x, data.edge_index, data.batch) for data in batches]
    model = rade.RADE(seeded(lambda: Ends(pyg.global_add_pool)), "ofs", rule=rade.Constant(0.3, 0.5))
    model.train()(*batches[0])
    traced = torch.jit.trace(model.eval(), batches[0], check_trace=False)
    with torch.no_grad():
        for given in batches:  # PyG's pooling keeps the number of graphs: the rest is empty
            expected = model(*given)
            torch.testing.assert_close(traced(*given)[: len(expected)], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", [torch.jit.trace, torch.export.export])
def test_what_has_no_formula_is_refused(how):
    with pytest.raises(RuntimeError, match=r"RADE-OFS expects in GATConv cannot be traced.*rade\.revert\(model\)"):
        how(shifting(lambda: GAT(8, 16, 2, 3)), (X, EDGES))
    model = rade.RADE(seeded(KINDS["GCN"]), noise=rade.Rates(0.0, 0.01)).eval()
    with pytest.raises(RuntimeError, match=r"a program can hold the plain model, or RADE-OFS in evaluation"):
        how(model, (X, EDGES))


@pytest.mark.parametrize("outside", [True, False], ids=["compile(RADE)", "RADE(compile)"])
def test_compiling_makes_few_programs(outside):
    """A program for each step of a layer's sums takes minutes to compile, and a view changes its shapes."""
    programs = []

    def backend(program: Any, inputs: Any) -> Any:
        programs.append(program)
        return program.forward

    torch._dynamo.reset()
    net = GCN(8, 8, 2, 3)
    expected = net(X, EDGES)
    wrap = [rade.RADE, lambda model: torch.compile(model, backend=backend)]
    first, second = wrap if outside else wrap[::-1]
    model = second(first(net))
    outputs = [model(X, EDGES) for _ in range(3)]
    assert not torch.equal(outputs[0], outputs[1])
    torch.testing.assert_close(model.eval()(X, EDGES), expected)
    assert len(programs) <= 12
    torch._dynamo.reset()
