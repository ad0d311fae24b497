"""Heterogeneous models: every relation has views of its own, reverses share theirs, and expectations are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.data import Batch, HeteroData

import rade
from rade.distribution import Distribution
from rade.graph.pairs import pattern_of_pairs
from rade.nn.context import Context
from rade.nn.relations import Between, reverses
from rade.testing.aggregators import normal
from rade.testing.oracle import error, pairs_of
from rade.views import View
from zoo import seeded

IN, OUT = 3, 2
TO, BACK, SAME, SAME_BACK = ("a", "to", "b"), ("b", "rev_to", "a"), ("a", "with", "a"), ("a", "rev_with", "a")
Flip = Callable[[float], bool]


def every_outcome(run: Callable[[Flip], Tensor]) -> Tensor:
    """The mean of what ``run`` returns, over all outcomes of the coins that it flips."""
    total, outcome = 0.0, []
    while True:
        weight, flipped = 1.0, 0

        def flip(chance: float) -> bool:
            nonlocal weight, flipped
            if flipped == len(outcome):
                outcome.append(False)
            weight *= chance if outcome[flipped] else 1.0 - chance
            flipped += 1
            return outcome[flipped - 1]

        total = total + run(flip) * weight
        while outcome and outcome[-1]:
            outcome.pop()
        if not outcome:
            return total
        outcome[-1] = True


def flipping(patch: Any, flip: Flip) -> None:
    """Views by coins, in the place of those by random numbers."""

    def draw(context: Context, distribution: Distribution) -> View:
        graph, rates = distribution.graph, distribution.rates
        (target, source), is_edge = pairs_of(graph)
        there = [flip(1.0 - rates.p if edge else rates.q) if edge or rates.q else False for edge in is_edge.tolist()]
        dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
        dense[target, source] = torch.tensor(there)
        dense = dense if graph.directed else dense | dense.mT
        added = torch.tensor(there) & ~is_edge
        pattern = pattern_of_pairs(target[added], source[added], graph.num_nodes, graph.directed)
        return View(distribution, dense[graph.pattern.target, graph.pattern.source], pattern)

    def between(edge_index: Tensor, sources: int, targets: int, rates: Any, *_: Any) -> Between:
        pairs, pair = torch.unique(edge_index[1] * sources + edge_index[0], return_inverse=True)
        q = rates[1] * len(pairs) / (sources * targets)
        others = [k for k in range(sources * targets) if k not in pairs.tolist()] if q else []
        kept = torch.tensor([flip(1.0 - rates[0]) for _ in pairs])
        extra = torch.tensor([k for k in others if flip(q)], dtype=torch.long)
        return Between(sources, targets, pairs, pair, kept, extra)

    patch.setattr(Context, "draw", draw)
    patch.setattr(Between, "draw", staticmethod(between))


def exact(patch: Any, net: Any, p: float, rho: float, *args: Any, batch: Tensor | None = None, **options: Any) -> None:
    """The mean over all pairs of views is the plain model."""
    net = net.double()
    with torch.no_grad():
        clean = flat(net.eval()(*args))
        model = rade.RADE(net, rule=rade.Constant(p, rho), **options).train()
        assert all(conv.against_moments() for conv in model.modules() if isinstance(conv, rade.nn.CorrectedConv))

        def run(flip: Flip) -> Tensor:
            flipping(patch, flip)
            with model._context.running(batch):
                return flat(model(*args))

        assert error(every_outcome(run), clean) <= 1e-6


def flat(output: Any) -> Tensor:
    return torch.cat([value.flatten() for value in output.values()]) if isinstance(output, dict) else output.flatten()


CHAIN, KINDS = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), torch.tensor([0, 0, 1, 1, 0, 0])
TWO_GRAPHS = torch.tensor([[0, 1, 2, 3, 1, 0], [1, 0, 3, 2, 0, 1]]), torch.tensor([0, 0, 1, 1, 1, 1])
RGCN = {
    "RGCNConv": lambda: pyg.RGCNConv(IN, OUT, 2),
    "RGCNConv-max": lambda: pyg.RGCNConv(IN, OUT, 2, aggr="max"),
    "FastRGCNConv": lambda: pyg.FastRGCNConv(IN, OUT, 2),
}


@pytest.mark.parametrize("name", RGCN)
def test_rgcn_over_all_pairs_of_views(monkeypatch, name):
    """Of a chain with two kinds of edges, which drop; of two graphs, to which both are added, too."""
    exact(monkeypatch, seeded(RGCN[name]), 0.4, 0.0, normal(4, IN), CHAIN, KINDS)
    if name == "RGCNConv-max":
        batch = torch.tensor([0, 0, 1, 1])
        exact(monkeypatch, seeded(RGCN[name]), 0.3, 0.5, normal(4, IN), *TWO_GRAPHS, batch=batch)


def test_rgcn_with_a_reverse_over_all_pairs_of_views(monkeypatch):
    edges, views = torch.tensor([[0, 1, 1, 2], [1, 0, 3, 1]]), rade.Views(reverse={0: 1})
    exact(monkeypatch, seeded(RGCN["RGCNConv"]), 0.4, 0.0, normal(4, IN), edges, torch.arange(4) % 2, views=views)


HETERO = {TO: torch.tensor([[0, 1, 1], [0, 0, 1]]), BACK: torch.tensor([[0, 1, 0], [0, 1, 1]])}
NODES = {"a": normal(2, IN), "b": normal(2, IN, seed=1)}


def hetero(*relations: Any, build: Any = lambda: pyg.SAGEConv((IN, IN), OUT, aggr="max")) -> Any:
    return seeded(lambda: pyg.HeteroConv({relation: build() for relation in relations}))


def test_hetero_conv_over_all_pairs_of_views(monkeypatch):
    """Four nodes of two kinds and two edges, where each relation flips coins of its own."""
    edges = {name: index[:, :2] for name, index in HETERO.items()}
    exact(monkeypatch, hetero(TO, BACK), 0.3, 0.0, NODES, edges, views=rade.Views(reverse={}))


def test_hetero_conv_with_additions_over_all_pairs_of_views(monkeypatch):
    """What the reverse draws for itself is of no account, where both hold the same pairs."""
    draw = Between.draw
    net = hetero(TO, BACK).double()
    clean, model = flat(net.eval()(NODES, HETERO)), rade.RADE(net, rule=rade.Constant(0.3, 0.4)).train()

    def run(flip: Flip) -> Tensor:
        flipping(monkeypatch, flip)
        coins = Between.draw

        def first_alone(edge_index: Tensor, *rest: Any) -> Between:
            return coins(edge_index, *rest) if edge_index is HETERO[TO] else draw(edge_index, *rest)

        monkeypatch.setattr(Between, "draw", staticmethod(first_alone))
        return flat(model(NODES, HETERO))

    with torch.no_grad():
        assert error(every_outcome(run), clean) <= 1e-6


# ---- reverses share their draw ------------------------------------------------------------------------------------


def random_pairs(sources: int, targets: int, count: int = 60) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    pair = torch.randperm(sources * targets, generator=generator)[:count]
    return torch.stack([pair % sources, pair // sources])


def shuffled(edge_index: Tensor) -> Tensor:
    return edge_index.flip(0)[:, torch.randperm(edge_index.shape[1], generator=torch.Generator().manual_seed(1))]


MANY = {"a": normal(20, IN).float(), "b": normal(15, IN, seed=1).float()}
INDEX = {TO: random_pairs(20, 15), SAME: random_pairs(20, 20)}
INDEX |= {BACK: shuffled(INDEX[TO]), SAME_BACK: shuffled(INDEX[SAME])}


def drawn_by(model: Any, *args: Any) -> dict[Any, list[Tensor]]:
    """The pairs [n, m] of each view, by relation or by the layer's path, in order."""
    seen: dict[Any, list[Tensor]] = {}
    names = {module: name for name, module in model.wrapped.named_modules()}
    with model._context.running() as present:
        model.train()(*args)
    for (layer, *_), (_, view) in present.between.items():
        dense = torch.zeros(view.targets, view.sources, dtype=torch.bool).view(-1)
        dense[view.pairs[view.kept]] = True
        dense[view.extra] = True
        seen.setdefault(names[layer], []).append(dense.view(view.targets, view.sources))
    for (layer, *_), view in present.views.items():
        dense = torch.zeros(view.graph.num_nodes, view.graph.num_nodes, dtype=torch.bool)
        dense[view.edge_index[1], view.edge_index[0]] = True
        seen.setdefault(names[layer], []).append(dense)
    return seen


def fixed() -> torch.Generator:
    return torch.Generator().manual_seed(0)


class Net(torch.nn.Module):
    """A layer that `to_hetero` makes one of each relation of."""

    def __init__(self, build: Any) -> None:
        super().__init__()
        self.first, self.second = build(), build()

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.second(self.first(x, edge_index), edge_index)


@pytest.mark.parametrize("aggr", ["mean", "max"], ids=["moments", "pairs"])
@pytest.mark.parametrize("how", ["HeteroConv", "to_hetero"])
def test_views_of_reverses_are_transposes(how, aggr):
    """Drops and additions; in every layer anew, and for a relation between nodes of one kind by moments, too."""

    def build() -> Any:
        return pyg.SAGEConv((-1, -1) if how == "to_hetero" else (IN, IN), IN, aggr=aggr)

    if how == "HeteroConv":
        net = torch.nn.ModuleList([hetero(*INDEX, build=build) for _ in range(2)])
        net.forward = lambda x, edges: net[1](net[0](x, edges), edges)
    else:
        net = pyg.to_hetero(Net(build), (["a", "b"], list(INDEX)))
        net(MANY, INDEX)
    seen = drawn_by(rade.RADE(net, rule=rade.Constant(0.5, 0.9), generator=fixed()), MANY, INDEX)
    assert len(seen) == 2 * len(INDEX)
    for path, views in seen.items():
        assert not torch.equal(views[0], views[-1]) or len(views) == 1
        if "rev_" not in path:
            ends = "___" if how == "HeteroConv" else "__"
            head, tail = path.rsplit(".", 1)
            source, name, target = tail.strip("<>").split(ends)
            back = ends.join([target, f"rev_{name}", source])
            other = seen[f"{head}.<{back}>" if how == "HeteroConv" else f"{head}.{back}"]
            assert all(torch.equal(one, two.T) for one, two in zip(views, other, strict=True))
    first, second = ([view for path, views in seen.items() if number in path for view in views] for number in
                     (("0.", "1.") if how == "HeteroConv" else ("first", "second")))  # fmt: skip
    assert not any(torch.equal(one, two) for one, two in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", [pyg.HANConv, pyg.HGTConv])
def test_layers_that_take_all_relations_at_once(kind):
    """In two layers, each with views of its own. HGT's are without additions, since it has attributes for each edge."""
    build = lambda: torch.nn.ModuleList([kind(width, 4, (["a", "b"], [TO, BACK])) for width in (IN, 4)])  # noqa: E731
    net, edges = seeded(build), {TO: INDEX[TO], BACK: INDEX[BACK]}
    net.forward = lambda x, edges: net[1](net[0](x, edges), edges)
    seen = drawn_by(rade.RADE(net, rule=rade.Constant(0.5, 0.9), generator=fixed()), MANY, edges)
    assert not any(torch.equal(one, two) for one, two in zip(*seen.values()))
    for views in seen.values():
        to, back = ([view for view in views if view.shape == shape] for shape in ((15, 20), (20, 15)))
        assert len(to) == len(back) == 2
        assert all(torch.equal(one, two.T) for one, two in zip(to, back))


def test_numbered_relations(monkeypatch):
    """RGCN's kinds of edges; the second is the first one backwards."""
    edges = torch.cat([INDEX[SAME], INDEX[SAME_BACK]], 1)
    kinds = torch.arange(120) // 60
    model = rade.RADE(
        seeded(lambda: pyg.RGCNConv(IN, OUT, 2)),
        rule=rade.Constant(0.5, 0.9),
        generator=fixed(),
        views=rade.Views(reverse={1: 0}),
    )
    seen: list[Tensor] = []
    plain = pyg.RGCNConv.propagate
    monkeypatch.setattr(pyg.RGCNConv, "propagate", lambda self, e, **kw: seen.append(e) or plain(self, e, **kw))
    model.train()(MANY["a"], edges, kinds)
    pairs = [{tuple(pair) for pair in e.T.tolist()} for e in seen]
    assert any(len(one) != 60 for one in pairs)
    assert all(any({(b, a) for a, b in one} == other for other in pairs) for one in pairs)


def test_sampled_relations_share_what_both_have():
    """A loader leaves out some edges of one relation: common pairs are dropped together, additions are its own."""
    edges = {TO: INDEX[TO], BACK: INDEX[BACK][:, :40]}
    seen = drawn_by(rade.RADE(hetero(TO, BACK), rule=rade.Constant(0.5, 0.9), generator=fixed()), MANY, edges)
    (one, *_), (other, *_) = (next(views for path, views in seen.items() if name in path) for name in ("___to", "rev_"))
    source, target = edges[BACK]
    assert torch.equal(other[target, source], one.T[target, source])
    assert not torch.equal(one, other.T)


class Named(torch.nn.Module):
    """Takes batch vectors by name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = hetero(TO, BACK)

    def forward(self, x: Any, edges: Any, batch_dict: Any) -> Any:
        return self.conv(x, edges)


class Whole(Named):
    """Takes all in one object."""

    def forward(self, data: Any) -> Any:  # type: ignore[override]
        return self.conv(data.x_dict, data.edge_index_dict)


@pytest.mark.parametrize("kind", [Named, Whole])
def test_graphs_of_a_batch_stay_apart(kind):
    one = HeteroData({TO: {"edge_index": INDEX[TO]}, BACK: {"edge_index": INDEX[BACK]}})
    one["a"].x, one["b"].x = MANY["a"], MANY["b"]
    data = Batch.from_data_list([one] * 5)
    args = (data,) if kind is Whole else (data.x_dict, data.edge_index_dict, data.batch_dict)
    model = rade.RADE(kind(), rule=rade.Constant(0.0, 0.5), generator=fixed()).train()
    model(*args)
    found = [view for _, view in model._context.reached.between.values()]
    assert len(found) == 4
    for view in found:
        source, target = view.added
        assert 80 < len(source) < 160  # 120 on average: a tenth of 1,200 pairs
        assert torch.equal(source // (view.sources // 5), target // (view.targets // 5))


def test_a_shared_view_is_that_of_all_layers():
    net = torch.nn.ModuleList(
        [hetero(TO, BACK, build=lambda: pyg.SAGEConv((IN, IN), IN, aggr="max")) for _ in range(2)]
    )
    net.forward = lambda x, edges: net[1](net[0](x, edges), edges)
    model = rade.RADE(net, rule=rade.Constant(0.5, 0.9), generator=fixed(), views=rade.Views(shared=True))
    with model._context.running() as present:
        model.train()(MANY, {TO: INDEX[TO], BACK: INDEX[BACK]})
    assert len(present.between) == 4  # two relations, and a pair of views of each


@pytest.mark.parametrize(
    ("reverse", "found"),
    [
        ("rev_", {TO: BACK}),
        ({"to": "rev_to"}, {TO: BACK}),
        ({TO: BACK}, {TO: BACK}),
        ({BACK: TO}, {TO: BACK}),
        ({}, {}),
    ],
)
def test_how_reverses_are_named(reverse, found):
    both = found | {back: name for name, back in found.items()}
    assert reverses(rade.Views(reverse=reverse).reverse, (TO, BACK, ("b", "to", "b"))) == both
    assert hash(rade.Views(reverse=reverse)) is not None


def test_attributes_of_a_layer_may_be_called_like_those_of_pyg():
    """What they hold is looked at before it is taken for relations."""
    for name, value in (("metadata", {"by": "me"}), ("metadata", None), ("edge_types", 3), ("num_relations", None)):
        for net in (pyg.GCNConv(IN, OUT), pyg.HANConv(IN, 4, (["a"], [SAME]))):
            setattr(net, name, value)
            assert not rade.RADE(net).wrapped._reverses


def test_a_wrong_name_is_one_sentence_and_leaves_the_model_alone():
    net = hetero(TO, BACK)
    with pytest.raises(ValueError, match=r"names the relation 'back', which no layer.*\('a', 'to', 'b'\), \('b', "):
        rade.RADE(net, views=rade.Views(reverse={"to": "back"}))
    assert type(net.convs[TO]) is pyg.SAGEConv
    with pytest.raises(
        ValueError, match=r"names the relation 3, which no layer of the model has; its relations are 0, 1"
    ):
        rade.RADE(pyg.RGCNConv(IN, OUT, 2), views=rade.Views(reverse={0: 3}))
    with pytest.raises(ValueError, match=r"are each other's reverse, but they do not join the same kinds of nodes"):
        rade.RADE(hetero(TO, SAME), views=rade.Views(reverse={"to": "with"}))
    with pytest.raises(ValueError, match=r"its relations are none that has a name"):
        rade.RADE(pyg.GCN(IN, 4, 2, OUT), views=rade.Views(reverse={"to": "back"}))
    with pytest.raises(ValueError, match=r"reverse must be a dict from relations to their reverses, got None"):
        rade.Views(reverse=None)


def test_additions_stay_within_the_graphs_of_a_batch():
    """With q = 1 all pairs of a graph that no edge joins, in any order of its nodes; at the cost of these alone."""
    of_source, of_target = torch.tensor([1, 0, 1, 3]), torch.tensor([3, 1, 0, 1, 1])
    edges = torch.tensor([[0, 1, 3], [1, 2, 0]])  # source, target
    view = Between.draw(edges, 4, 5, (0.0, 1e9), torch.Generator().manual_seed(0), (of_source, of_target))
    same = of_source[:, None] == of_target
    same[tuple(edges)] = False
    assert {tuple(pair) for pair in view.added.t().tolist()} == {tuple(pair) for pair in same.nonzero().tolist()}
    assert bool((view.extra.diff() > 0).all())
    empty = Between.draw(edges[:, :0], 0, 5, (0.0, 0.5), torch.Generator(), (of_source[:0], of_target))
    assert empty.added.shape == (2, 0)
