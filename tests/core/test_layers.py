"""The convolutions are PyG's: on tensors, on clean graphs, with dense and sparse features, and on uncorrected views."""

import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential

import rade.nn
from core.driving import on_views
from rade import Graph, Rates, Variant
from rade.correction import Adjacency
from rade.distribution import Distribution
from rade.nn.edge_values import imputed
from rade.nn.linear import as_sparse
from rade.nn.trace import Trace
from rade.testing import GRAPHS as NAMED
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from rade.views import View, draw

IN, OUT, DIM = 6, 4, 3
ISOLATED = NAMED["isolated"]
UNUSED = {"allow_unused": True, "materialize_grads": True}  # a single step of ARMAConv has a weight that nobody uses


@dataclass(frozen=True)
class Case:
    """A layer with constructor options and, for some, further inputs of the forward pass."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    channels: tuple[Any, ...] = (IN, OUT)
    allowed: float = 1e-10  # more where PyG itself computes in single precision
    first: bool = False  # whether the layer takes the first features as well
    value: int | None = None  # of edges: 0 for weights, the width of attributes

    def __str__(self) -> str:
        of_edges = "" if self.value is None else "-attributes" if self.value else "-weights"
        return self.name + "".join(f"-{key}={value}" for key, value in self.options.items()) + of_edges

    def pair(self, dtype: torch.dtype = torch.double) -> tuple[Any, Any]:
        """Our layer and PyG's with the same parameters, away from their initial zeros."""
        torch.manual_seed(0)
        theirs = getattr(pyg, self.name)(*self.channels, **self.options).to(dtype)
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        ours = getattr(rade.nn, self.name)(*self.channels, **self.options).to(dtype)
        ours.load_state_dict(theirs.state_dict())
        return ours.eval(), theirs.eval()

    def inputs(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x, x.roll(1, 0)) if self.first else (x,)

    def of_edges(self, graph: Graph, dtype: torch.dtype = torch.double) -> tuple[Tensor, ...]:
        """Different in both directions, but for ChebConv, whose Laplacian is symmetric; in the caller's order."""
        if self.value is None:
            return ()
        found = normal(graph.pattern.size, *[self.value] * bool(self.value), seed=5)
        if self.name == "ChebConv":
            ordered = found[graph.order].exp()
            found = found.index_copy(0, graph.order, ordered + ordered[graph.pattern.transposition])
        elif self.value == 0:
            found = found.exp()
        return (found.to(dtype),)

    def on_view(self, view: View) -> tuple[Tensor, ...]:
        """Of kept edges, and the mean of their graph for additions."""
        graph = view.graph
        ordered = [value[graph.order] for value in self.of_edges(graph)]
        means = [imputed(graph, value if self.value else value[:, None], "mean") for value in ordered]
        added = [mean[view.added.target] if self.value else mean[view.added.target, 0] for mean in means]
        return tuple(torch.cat([value[view.kept], other]) for value, other in zip(ordered, added))


def mlp(*sizes: int) -> Sequential:
    layers = [layer for a, b in pairwise(sizes) for layer in (Linear(a, b), ReLU())]
    return Sequential(*layers[:-1])


def gin(nn: torch.nn.Module, **options: Any) -> Case:
    return Case("GINConv", options, (nn,))


WEIGHTED: list[tuple[str, dict[str, Any]]] = [
    ("GraphConv", {}), ("GraphConv", {"aggr": "mean"}), ("SGConv", {"K": 2}), ("TAGConv", {"K": 2}),
    ("GCNConv", {}), ("GCNConv", {"improved": True}), ("GCNConv", {"add_self_loops": False}),
    ("GCNConv", {"normalize": False}), ("MixHopConv", {}), ("SSGConv", {"alpha": 0.3, "K": 2}),
    ("ChebConv", {"K": 3}), ("ARMAConv", {"num_layers": 2}),
]  # fmt: skip
WITHOUT_MAP: list[tuple[str, dict[str, Any]]] = [("SimpleConv", {}), ("APPNP", {"K": 2, "alpha": 0.1}), ("LGConv", {})]
CASES = [
    Case("GCNConv"),
    Case("GCNConv", {"improved": True, "bias": False}),
    Case("GCNConv", {"add_self_loops": False}),
    Case("GCNConv", {"normalize": False}),
    Case("GCNConv", {"cached": True}),
    gin(mlp(IN, 3, OUT), eps=0.3),
    gin(mlp(IN, 9, OUT), train_eps=True),
    gin(Sequential(Linear(IN, OUT, bias=False)), eps=0.1),
    gin(pyg.MLP([IN, 8, OUT], dropout=0.5, norm=None)),
    gin(pyg.MLP([IN, 2, OUT])),
    gin(torch.nn.Identity()),
    Case("GATConv"),
    Case("GATConv", {"heads": 3, "concat": False}),
    Case("GATConv", {"negative_slope": 0.0}),
    Case("GATConv", {"heads": 2, "negative_slope": 0.9, "dropout": 0.6}),
    Case("GATConv", {"heads": 2, "add_self_loops": False, "bias": False}),
    Case("GATConv", {"heads": 2, "residual": True}),
    Case("GATConv", {}, ((IN, IN), OUT)),  # of a relation between nodes of one kind
    Case("SAGEConv"),
    Case("SAGEConv", {"aggr": "sum", "bias": False}),
    Case("SAGEConv", {"root_weight": False, "normalize": True}),
    Case("SAGEConv", {"project": True}),
    Case("GraphConv"),
    Case("GraphConv", {"aggr": "mean", "bias": False}),
    Case("SAGEConv", {"aggr": pyg.aggr.MeanAggregation()}),
    Case("GraphConv", {"aggr": pyg.aggr.SumAggregation()}),
    Case("APPNP", {"K": 3, "alpha": 0.2}, ()),
    Case("APPNP", {"K": 2, "alpha": 0.1, "normalize": False}, ()),
    Case("APPNP", {"K": 1, "alpha": 0.1, "add_self_loops": False}, ()),
    Case("LGConv", {}, ()),
    Case("LGConv", {"normalize": False}, ()),
    Case("TAGConv"),
    Case("TAGConv", {"K": 1, "normalize": False, "bias": False}),
    Case("MixHopConv"),
    Case("MixHopConv", {"powers": [2, 0], "add_self_loops": False}),
    Case("SSGConv", {"alpha": 0.3, "K": 3}),
    Case("SSGConv", {"alpha": 0.3, "bias": False, "add_self_loops": False}),
    Case("ChebConv", {"K": 1}),
    Case("ChebConv", {"K": 4, "bias": False}),
    Case("GatedGraphConv", {"num_layers": 2}, (IN + 2,)),
    Case("GatedGraphConv", {"num_layers": 1, "aggr": "mean"}, (IN,)),
    Case("ARMAConv", {"num_stacks": 2, "num_layers": 3, "dropout": 0.5}),
    Case("ARMAConv", {"num_layers": 2, "shared_weights": True, "act": None, "bias": False}),
    Case("ClusterGCNConv", {"diag_lambda": 0.7}, allowed=1e-7),
    Case("SGConv", {"K": 3}),
    Case("SGConv", {"K": 2, "add_self_loops": False, "bias": False}),
    Case("GCN2Conv", {"alpha": 0.2, "theta": 0.5, "layer": 1}, (IN,), first=True),
    Case("GCN2Conv", {"alpha": 0.2, "shared_weights": False, "normalize": False}, (IN,), first=True),
    Case("SimpleConv", {"aggr": "mean", "combine_root": "cat"}, ()),
    Case("SimpleConv", {"aggr": "sum", "combine_root": "sum"}, ()),
    *(Case(name, options, value=0) for name, options in WEIGHTED),
    *(Case(name, options, (), value=0) for name, options in WITHOUT_MAP),
    Case("GatedGraphConv", {"num_layers": 2}, (IN,), value=0),
    Case("GCN2Conv", {"alpha": 0.2}, (IN,), first=True, value=0),
    Case("GINEConv", {"eps": 0.3, "edge_dim": DIM, "train_eps": True}, (mlp(IN, 4, OUT),), value=DIM),
    *(
        Case("GATConv", {"heads": 2, "edge_dim": DIM, "add_self_loops": loops, "fill_value": fill}, value=DIM)
        for loops, fill in ((True, "mean"), (True, "add"), (True, 0.7), (False, "mean"))
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
SHUFFLED = Graph.from_edge_index(ISOLATED.edge_index[:, torch.tensor([5, 0, 7, 2, 1, 6, 4, 3])], 5)
GRAPHS = [SHUFFLED, *(NAMED[name] for name in ("near-clique", "batch", "directed", "directed-sources"))]


def graphs_for(case: Case) -> list[Graph]:
    """Undirected and directed ones; ChebConv has no Laplacian with moments of the latter."""
    return [graph for graph in GRAPHS if not (graph.directed and case.name == "ChebConv")]


def drawn(graph: Graph, variant: str = "none", p: float = 0.4, q: float = 0.3) -> View:
    return draw(Distribution(graph, Rates(p, q), Variant(variant)), torch.Generator().manual_seed(1))


def over(view: View, mean: bool = False) -> Adjacency:
    return Adjacency(view.graph, view.distribution, None if mean else view)


def features(graph: Graph, seed: int = 0) -> Tensor:
    """With zeros, so that the sparse form is sparse."""
    return normal(graph.num_nodes, IN, seed=seed) * (normal(graph.num_nodes, IN, seed=seed + 1) > -0.3)


def slopes_apart(*outs: tuple[Tensor, list[Tensor]]) -> float:
    """The error of the first of two outputs' gradients, relative to the largest: softmax lets some of them vanish."""
    slopes = [torch.autograd.grad((out * normal(*out.shape, seed=3)).sum(), by, **UNUSED) for out, by in outs]
    largest = torch.stack([slope.abs().max() for slope in slopes[1]])
    return max(error(*pair, scale=largest) for pair in zip(*slopes))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 0.0), (torch.float, 1e-6)], ids=["double", "float"])
@every_case
def test_layers_compute_what_pyg_computes(case, dtype, tolerance):
    """On the edge_index, on the Graph and for RADE-OF inference; dense features and, where PyG has none, CSR."""
    ours, theirs = case.pair(dtype)
    for graph in graphs_for(case):
        x, values = features(graph).to(dtype), case.of_edges(graph, dtype)
        expected = copy.deepcopy(theirs)(*case.inputs(x), graph.given, *values)
        assert torch.equal(copy.deepcopy(ours)(*case.inputs(x), graph.given, *values), expected)
        for adjacency in (graph, over(drawn(graph, "of"), mean=True)):
            for given in (x, x.to_sparse_csr()) if not case.first and not case.value else (x,):
                assert error(ours(*case.inputs(given), adjacency, *values), expected) <= max(case.allowed, tolerance)


@every_case
def test_an_uncorrected_view_is_pyg_on_its_edges(case):
    """variant="none" is the plain layer on the perturbed graph, with its gradients; additions have its mean value."""
    ours, theirs = case.pair()
    if case.options.get("fill_value") in ("mean", "add") and case.options["add_self_loops"]:
        return  # PyG fills loops by the edges of a view, RADE by those of the graph
    for graph in graphs_for(case):
        view, x = drawn(graph), features(graph).requires_grad_()
        plain = copy.deepcopy(theirs)
        expected = plain(*case.inputs(x), view.edge_index, *case.on_view(view))
        out = ours(*case.inputs(x), over(view), *case.of_edges(graph))
        assert error(out, expected) <= case.allowed
        assert slopes_apart((out, [x, *ours.parameters()]), (expected, [x, *plain.parameters()])) <= case.allowed


PLAIN = [case for case in CASES if case.value is None]
ROWS = [case for case in PLAIN if case.name in ("GCNConv", "GINConv", "SAGEConv", "GATConv", "GraphConv")]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("mode", ["clean", "of", "ofs", "none"])
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_some_rows_are_rows_of_the_whole(case, mode, sparse):
    """Outputs and gradients, whichever of map and sum comes first; on views and for the mean over them."""
    ours, _ = case.pair()
    graph, rows = NAMED["batch"], torch.tensor([5, 0, 6])
    x, view = features(graph), None if mode == "clean" else drawn(graph, mode)
    for adjacency in [graph] if view is None else [over(view), over(view, mean=True)]:
        given = x.to_sparse_csr() if sparse else x
        outs = [ours(given, adjacency)[rows], ours.for_targets(rows, given, adjacency)]
        assert error(*outs) <= 1e-10
        if parameters := list(ours.parameters()):
            assert slopes_apart(*((out, parameters) for out in outs)) <= 1e-10


def test_features_that_are_mostly_zero_become_sparse_once_they_came_thrice(monkeypatch):
    """A bag of words given dense; made anew, changed in place, wanting gradients or dense at heart, it stays dense."""
    monkeypatch.setattr("rade.nn.linear.MANY", 1)
    x = torch.zeros(40, 20)
    x[torch.arange(40), torch.arange(40) % 20] = 1.0
    assert [as_sparse(x).layout for _ in range(4)] == [torch.strided] * 2 + [torch.sparse_csr] * 2
    assert torch.equal(as_sparse(x).to_dense(), x)
    x[0, 3] = 2.0
    assert as_sparse(x) is x
    for given in (torch.ones(40, 20), x.clone().requires_grad_(), x.to(torch.bfloat16)):
        assert all(as_sparse(given) is given for _ in range(5))
    assert all(as_sparse(x * 2.0).layout == torch.strided for _ in range(5))


NOT_LINEAR = ("GatedGraphConv", "normalize=True", "num_stacks=2", "GINConv")
LINEAR = [case for case in PLAIN if not any(word in str(case) for word in NOT_LINEAR) and str(case) != "ChebConv-K=1"]


@pytest.mark.parametrize("case", [*LINEAR, gin(Linear(IN, OUT))], ids=str)
def test_the_map_that_follows_the_last_sum_is_its_derivative(case):
    """What rates are adapted by: a change of the last sum, pushed to the output, and to logits after a linear head."""
    _, theirs = case.pair()
    layer, context = on_views(theirs, Rates(0.3, 0.2))
    with context.running():
        head = normal(2, layer(*case.inputs(features(ISOLATED)), ISOLATED.edge_index).shape[1])
    for mode in ("clean", "mean", "views"):
        trace = Trace(with_gradients=True)
        with context.using(trace=trace, mode=mode), context.running():
            out = layer.eval()(*case.inputs(features(ISOLATED)), ISOLATED.edge_index)
        last, direction = trace.last, normal(5, 2, seed=1)
        (slope,) = torch.autograd.grad(((out @ head.t()) * direction).sum(), last.output)
        matrix = last.after(head)
        expected = torch.einsum("nc,hcf->nhf", direction, matrix) if matrix.dim() == 3 else direction @ matrix
        assert error(slope, expected) <= 1e-10
