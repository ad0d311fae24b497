"""Heterogeneous models: every relation has views of its own, reverses share theirs, and expectations are kept."""

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.data import Batch, HeteroData

import rade
from rade.distribution import Distribution
from rade.nn.context import BatchVectors, Context
from rade.nn.relations import Bipartite
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from rade.views import View, draw
from zoo import seeded, stacked, wrapped

IN, OUT = 3, 2
TO, BACK, SAME, SAME_BACK = ("a", "to", "b"), ("b", "rev_to", "a"), ("a", "with", "a"), ("a", "rev_with", "a")
Flip = Callable[[float], bool]


def every_outcome(run: Callable[[Flip], Tensor]) -> Tensor:
    """The mean of what ``run`` returns, over all outcomes of its coins, whose number does not depend on them."""
    chances: list[float] = []
    total = 0.0 * run(lambda chance: chance > 0.0 and bool(chances.append(chance)))
    for sides in product((False, True), repeat=len(chances)):
        coins = iter(sides)
        weight = prod(chance if side else 1.0 - chance for chance, side in zip(chances, sides))
        total = total + weight * run(lambda chance, coins=coins: chance > 0.0 and next(coins))
    return total


def flipping(patch: Any, flip: Flip) -> None:
    """Views by coins, in the place of those by random numbers."""

    def by_coins(context: Context, distribution: Distribution) -> View:
        graph, rates, pairs = distribution.graph, distribution.rates, torch.arange(distribution.graph.num_pairs)
        is_edge = torch.isin(pairs, graph.edge_rank)
        there = torch.tensor([flip(1.0 - rates.p if edge else rates.q) for edge in is_edge.tolist()], dtype=torch.bool)
        return View(distribution, there[is_edge][graph.edge_of_entry], graph.pairs_at(pairs[there & ~is_edge]))

    patch.setattr(Context, "draw", by_coins)


def flat(output: Any) -> Tensor:
    return torch.cat([value.flatten() for value in output.values()]) if isinstance(output, dict) else output.flatten()


def hetero(*relations: Any, aggr: str = "max", size: Any = (IN, IN)) -> Any:
    return seeded(lambda: pyg.HeteroConv({relation: pyg.SAGEConv(size, IN, aggr=aggr) for relation in relations}))


CHAIN, KINDS = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), torch.tensor([0, 0, 1, 1, 0, 0])
TWO_GRAPHS = torch.tensor([[0, 1, 2, 3, 1, 0], [1, 0, 3, 2, 0, 1]]), torch.tensor([0, 0, 1, 1, 1, 1])
WITH_REVERSE = torch.tensor([[0, 1, 1, 2], [1, 0, 3, 1]]), torch.arange(4) % 2
X, NODES = normal(4, IN), {"a": normal(2, IN), "b": normal(2, IN, seed=1)}
FEW = {"a": NODES["a"][:1], "b": NODES["b"]}
TWO_WAYS = {TO: torch.tensor([[0, 1], [0, 0]]), BACK: torch.tensor([[0, 1], [0, 1]])}
ONE_PAIR = {TO: torch.tensor([[0], [1]]), BACK: torch.tensor([[1], [0]])}
# The model, p and ρ, its arguments, options, and the batch vector.
EXACT: dict[str, tuple[Any, tuple[float, float], tuple[Any, ...], dict[str, Any], list[int] | None]] = {
    "RGCN": (lambda: pyg.RGCNConv(IN, OUT, 2), (0.4, 0.0), (X, CHAIN, KINDS), {}, None),
    "RGCN-max": (lambda: pyg.RGCNConv(IN, OUT, 2, aggr="max"), (0.3, 0.5), (X, *TWO_GRAPHS), {}, [0, 0, 1, 1]),
    "FastRGCN": (lambda: pyg.FastRGCNConv(IN, OUT, 2), (0.4, 0.0), (X, CHAIN, KINDS), {}, None),
    "FastRGCN without edges": (
        lambda: pyg.FastRGCNConv(IN, OUT, 2), (0.4, 0.9), (X, CHAIN[:, :0], KINDS[:0]), {}, None
    ),
    "RGCN with a reverse": (
        lambda: pyg.RGCNConv(IN, OUT, 2), (0.4, 0.0), (X, *WITH_REVERSE), {"views": rade.Views(reverse={0: 1})}, None
    ),
    "drops": (lambda: hetero(TO, BACK), (0.3, 0.0), (NODES, TWO_WAYS), {"views": rade.Views(reverse={})}, None),
    "additions with a reverse": (lambda: hetero(TO, BACK), (0.3, 0.4), (FEW, ONE_PAIR), {}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_the_mean_over_all_pairs_of_views_is_the_plain_model(monkeypatch, name):
    build, rates, args, options, batch = EXACT[name]
    net = seeded(build).double()
    with torch.no_grad():
        clean = flat(net.eval()(*args))
        model = rade.RADE(net, rule=rade.Constant(*rates), **options).train()
        assert all(conv.against_moments() for conv in model.modules() if isinstance(conv, rade.nn.CorrectedConv))

        def run(flip: Flip) -> Tensor:
            flipping(monkeypatch, flip)
            with model._context.running(None if batch is None else BatchVectors([torch.tensor(batch)])):
                return flat(model(*args))

        assert error(every_outcome(run), clean) <= 1e-6


def random_pairs(sources: int, targets: int, count: int = 60) -> Tensor:
    pair = torch.randperm(sources * targets, generator=torch.Generator().manual_seed(0))[:count]
    return torch.stack([pair % sources, pair // sources])


def shuffled(edge_index: Tensor) -> Tensor:
    return edge_index.flip(0)[:, torch.randperm(edge_index.shape[1], generator=torch.Generator().manual_seed(1))]


MANY = {"a": normal(20, IN).float(), "b": normal(15, IN, seed=1).float()}
INDEX = {TO: random_pairs(20, 15), SAME: random_pairs(20, 20)}
INDEX |= {BACK: shuffled(INDEX[TO]), SAME_BACK: shuffled(INDEX[SAME])}
BOTH = {TO: INDEX[TO], BACK: INDEX[BACK]}


def drawing(net: torch.nn.Module, *rates: float, **views: Any) -> rade.RADE:
    return wrapped(net, rule=rade.Constant(*rates or (0.5, 0.9)), views=rade.Views(**views)).train()


def drawn_by(model: rade.RADE, *args: Any) -> dict[str, list[Tensor]]:
    """The pairs [n, m] of each view, by the layer's path, in order."""
    seen: dict[str, list[Tensor]] = {}
    names = {module: name for name, module in model.wrapped.named_modules()}
    with model._context.running() as present:
        model(*args)
    for (layer, *_), view in present.views.items():
        dense = torch.zeros(view.graph.pattern.rows, view.graph.pattern.columns, dtype=torch.bool)
        dense[view.edge_index[1], view.edge_index[0]] = True
        seen.setdefault(names[layer], []).append(dense)
    return seen


@pytest.mark.parametrize("aggr", ["mean", "max"], ids=["moments", "pairs"])
@pytest.mark.parametrize("how", ["HeteroConv", "to_hetero"])
@pytest.mark.parametrize("reverse", ["rev_", {"rev_to": "to", SAME: SAME_BACK}], ids=["by prefix", "by name"])
def test_views_of_reverses_are_transposes(how, aggr, reverse):
    """Drops and additions; in every layer anew, and for a relation between nodes of one kind by moments, too."""
    if how == "HeteroConv":
        net, path = stacked(*(hetero(*INDEX, aggr=aggr) for _ in range(2))), "{}.convs.<{}___{}___{}>"
    else:
        build = lambda: pyg.SAGEConv((-1, -1), IN, aggr=aggr)  # noqa: E731
        net, path = pyg.to_hetero(stacked(build(), build()), (["a", "b"], list(INDEX))), "{}.{}__{}__{}"
        net(MANY, INDEX)
    seen = drawn_by(drawing(net, reverse=reverse), MANY, INDEX)
    first, second = ({name: seen[path.format(at, *name)] for name in INDEX} for at in ("module_0", "module_1"))
    assert len(seen) == 2 * len(INDEX)
    for name, back in ((TO, BACK), (SAME, SAME_BACK)):
        assert len(first[name]) == 1 or not torch.equal(*first[name])
        assert not any(torch.equal(one, other) for one, other in zip(first[name], second[name], strict=True))
        for views in (first, second):
            assert all(torch.equal(one, other.T) for one, other in zip(views[name], views[back], strict=True))


@pytest.mark.parametrize("kind", [pyg.HANConv, pyg.HGTConv])
def test_layers_that_take_all_relations_at_once(kind):
    """In two layers, each with views of its own. HGT's are without additions, since it has attributes for each edge."""
    net = seeded(lambda: stacked(*(kind(width, 4, (["a", "b"], [TO, BACK])) for width in (IN, 4))))
    seen = drawn_by(drawing(net), MANY, BOTH)
    assert not any(torch.equal(one, two) for one, two in zip(*seen.values()))
    for views in seen.values():
        to, back = ([view for view in views if view.shape == shape] for shape in ((15, 20), (20, 15)))
        assert len(to) == len(back) == 2
        assert all(torch.equal(one, two.T) for one, two in zip(to, back))


def test_numbered_relations():
    """RGCN's kinds of edges; the second is the first one backwards."""
    edges = torch.cat([INDEX[SAME], INDEX[SAME_BACK]], 1)
    kinds = torch.arange(120) // 60
    model = drawing(seeded(lambda: pyg.RGCNConv(IN, OUT, 2)), reverse={1: 0})
    (views,) = drawn_by(model, MANY["a"], edges, kinds).values()
    assert len(views) == 4
    assert any(int(view.sum()) != 60 for view in views)
    assert all(any(torch.equal(view.T, other) for other in views) for view in views)


def test_the_same_relations_with_other_boundaries_are_other_graphs():
    """And directed ones if views are."""
    model = drawing(seeded(lambda: pyg.RGCNConv(IN, OUT, 2)), directed=True)
    for batch in (None, torch.tensor([0, 0, 1, 1])):
        with model._context.running(None if batch is None else BatchVectors([batch])) as present:
            model(X.float(), *TWO_GRAPHS)
    assert {(view.graph.num_graphs, view.graph.directed) for view in present.views.values()} == {(2, True)}


NEAR = ("a", "near", "a")
SPARSE = {SAME: INDEX[SAME][:, INDEX[SAME][0] != INDEX[SAME][1]], NEAR: torch.tensor([[0, 1], [2, 3]])}


@pytest.mark.parametrize("last", [SAME, NEAR], ids=["few first", "many first"])
@pytest.mark.parametrize("numbered", [True, False], ids=["RGCN", "HeteroConv"])
def test_every_relation_adds_by_its_own_density(numbered, last):
    """Whichever is met first; for RADE-OFS in evaluation, too."""
    names = sorted(SPARSE, key=lambda name: name == last)
    edges = {name: SPARSE[name] for name in names}
    if numbered:
        kinds = torch.cat([torch.full((edges[name].shape[1],), k) for k, name in enumerate(names)])
        net, args = pyg.RGCNConv(IN, OUT, 2), (MANY["a"], torch.cat(list(edges.values()), 1), kinds)
    else:
        net, args = hetero(*names, aggr="mean", size=IN), ({"a": MANY["a"]}, edges)
    model = wrapped(net, "of" if numbered else "ofs", rule=rade.Constant(0.3, 0.5))
    for training in (True, False)[: 1 if numbered else 2]:
        with model.train(training)._context.running() as present:
            model(*args)
        ratio = [float(views.rates.q) / graph.density for graph, views in present.distributions.items()]
        assert ratio == pytest.approx([0.5, 0.5])


def test_views_between_two_kinds_of_nodes_are_drawn_like_others():
    """In fixed numbers where these are asked for, each kind of edges by itself: two views for each."""
    model = drawing(seeded(lambda: pyg.RGCNConv((IN, IN), OUT, 2)), 0.0, 1.0, sampling="fixed")
    model((MANY["a"], MANY["b"]), INDEX[TO], torch.arange(60) % 2)
    views = model._context.reached.views.values()
    assert [(view.graph.num_edges, view.added.size) for view in views] == [(30, 27)] * 4


def test_sampled_relations_share_what_both_have():
    """A loader leaves out some edges of one relation: common pairs are dropped together, additions are its own."""
    edges = {TO: INDEX[TO], BACK: INDEX[BACK][:, :40]}
    seen = drawn_by(drawing(hetero(TO, BACK)), MANY, edges)
    (one, *_), (other, *_) = (next(views for path, views in seen.items() if name in path) for name in ("___to", "rev_"))
    source, target = edges[BACK]
    assert torch.equal(other[target, source], one.T[target, source])
    assert not torch.equal(one, other.T)


class Named(torch.nn.Module):
    """Takes batch vectors by name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = hetero(TO, BACK, SAME)

    def forward(self, x: Any, edges: Any, batch_dict: Any) -> Any:
        return self.conv(x, edges)


class Whole(Named):
    """Takes all in one object."""

    def forward(self, data: Any) -> Any:
        return self.conv(data.x_dict, data.edge_index_dict)


class Only(Named):
    """Returns the output for one kind of nodes."""

    def forward(self, x: Any, edges: Any) -> Any:
        return self.conv(x, edges)["b"]


@pytest.mark.parametrize("kind", [Named, Whole])
def test_graphs_of_a_batch_stay_apart(kind):
    """Also where kinds have as many nodes: graphs of 3 and 5 of one kind, and of 5 and 3 of the other."""
    parts = []
    for a, b in ((3, 5), (5, 3)):
        part = HeteroData({"a": {"x": MANY["a"][:a]}, "b": {"x": MANY["b"][:b]}})
        for name, ends in ((TO, [[0], [0]]), (BACK, [[0], [0]]), (SAME, [[0], [1]])):
            part[name].edge_index = torch.tensor(ends)
        parts.append(part)
    data = Batch.from_data_list(parts)
    model = drawing(kind(), 0.0, 5.0)
    model(*((data,) if kind is Whole else (data.x_dict, data.edge_index_dict, data.batch_dict)))
    present = model._context.reached
    assert {view.graph.num_graphs for view in present.views.values()} == {2}
    for (layer, *_), view in present.views.items():
        source, target = (data.batch_dict[kind] for kind in layer._relation[::2])
        assert view.added.size > 0 or source is target
        assert torch.equal(source[view.added.source], target[view.added.target])


def test_rates_that_are_asked_for_are_those_of_all_relations():
    """At rates of 0 every view is the graph, between two kinds of nodes as within one."""
    model = drawing(hetero(*INDEX, aggr="mean")).eval()
    found = model.by(rade.Ensemble(size=2, rates=rade.Rates(0.0, 0.0)))(MANY, INDEX)
    assert error(flat(found), flat(model(MANY, INDEX))) <= 1e-6
    report = rade.RADE(Only(), rule=rade.Constant(0.5, 0.5)).eval()
    assert report.uncertainty(MANY, INDEX, views=4, rates=rade.Rates(0.0, 0.0)).sampled_std.max() <= 1e-6


def test_a_shared_view_is_that_of_all_layers():
    model = drawing(stacked(hetero(TO, BACK), hetero(TO, BACK)), shared=True)
    with model._context.running() as present:
        model(MANY, BOTH)
    assert len(present.views) == 4  # two relations, and a pair of views of each


def test_attributes_of_a_layer_may_be_called_like_those_of_pyg():
    """What they hold is looked at before it is taken for relations."""
    for name, value in (("metadata", {"by": "me"}), ("metadata", None), ("edge_types", 3), ("num_relations", None)):
        for net in (pyg.GCNConv(IN, OUT), pyg.HANConv(IN, 4, (["a"], [SAME]))):
            setattr(net, name, value)
            assert not rade.RADE(net).wrapped._reverses


WRONG: dict[str, tuple[Any, Any, str]] = {
    "unknown": (
        lambda: hetero(TO, BACK),
        {"to": "back"},
        r"the relation 'back', which no layer.*\('a', 'to', 'b'\)",
    ),
    "number": (lambda: pyg.RGCNConv(IN, OUT, 2), {0: 3}, r"the relation 3, which no layer.*its relations are 0, 1"),
    "other ends": (lambda: hetero(TO, SAME), {"to": "with"}, "but they do not join the same kinds of nodes"),
    "no relations": (lambda: pyg.GCN(IN, 4, 2, OUT), {"to": "back"}, "its relations are none that has a name"),
    "no names": (lambda: pyg.GCNConv(IN, OUT), None, "must be a dict from relations to their reverses, got None"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_one_sentence_and_leaves_the_model_alone(name):
    build, reverse, words = WRONG[name]
    net = build()
    classes = [type(module) for module in net.modules()]
    with pytest.raises(ValueError, match=words):
        rade.RADE(net, views=rade.Views(reverse=reverse))
    assert [type(module) for module in net.modules()] == classes


def test_additions_stay_within_the_graphs_of_a_batch():
    """With q = 1 all pairs of a graph that no edge joins, in any order of its nodes; at the cost of these alone."""
    of_source, of_target = torch.tensor([1, 0, 1, 3]), torch.tensor([3, 1, 0, 1, 1])
    edges = torch.tensor([[0, 1, 3], [1, 2, 0]])  # source, target
    graph, others = Bipartite.of(edges, 4, 5, (of_source, of_target)), rade.Rates(0.0, 1.0)
    added = draw(Distribution(graph, others)).added
    same = of_source[:, None] == of_target
    same[tuple(edges)] = False
    assert same.sum() == graph.num_nonedges
    assert [*zip(added.source.tolist(), added.target.tolist())] == [(s, t) for t, s in same.T.nonzero().tolist()]
    none = Bipartite.of(edges[:, :0], 0, 5, (of_source[:0], of_target))
    assert draw(Distribution(none, others)).added.size == 0
