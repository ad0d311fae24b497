"""What must not matter, or matter smoothly: numbering, batching, precision, shared memory, and small steps of rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from rade.control.variance import variance
from rade.correction import propagate
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Moments, Sent
from rade.testing.aggregators import Aggregator
from rade.testing.cases import BATCH, CASES, DIRECTED_BATCH, INSIDE, Case, expect
from rade.testing.expectations import called
from rade.testing.oracle import Carry
from rade.view.law import Law, Variant
from rade.view.rates import Rates
from rade.view.sampling import sample
from rade.view.view import MeanView, View

ROUNDING = 1e-9  # of sums in another order, through factors of up to ten and differences of all pairs and edges
SINGLE = 2e-5  # of results in float32, whose unit is 1.2e-7, through divisions by small means
Results = dict[str, Tensor]


def nodes_may_be_numbered_otherwise(aggregator: Aggregator) -> None:
    """Outputs and variances follow their nodes when these are renumbered within each graph."""
    for case in CASES:
        order, other, carry = _renumbered(case.graph)
        x = aggregator.messages(case.graph)
        for variant in Variant:
            view = _drawn(case.law(variant))
            before = _results(aggregator.alone(case.graph), view, x)
            there = aggregator.on(case.graph)(other, carry, x.dtype)
            after = _results(there, _carried(view, order, other, carry), x[order])
            for what, found in after.items():
                target = before[what][order]
                expect(found, target, ROUNDING, f"{what} of renumbered nodes, {called(variant)}", case)


def edges_may_be_listed_in_any_order(aggregator: Aggregator) -> None:
    """A shuffled ``edge_index`` is the same graph: the same views, outputs and variances to the last bit."""
    for case in CASES:
        shuffle = torch.randperm(case.graph.pattern.size, generator=torch.Generator().manual_seed(3))
        other = _like(case.graph, case.graph.edge_index[:, shuffle], case.graph.batch)
        x = aggregator.messages(case.graph)
        for variant in Variant:
            view, there = _drawn(case.law(variant)), _drawn(case.law(variant).on(other))
            before = _results(aggregator.alone(case.graph), view, x)
            after = _results(aggregator.alone(other), there, x)
            for what, found in after.items():
                expect(found, before[what], 0.0, f"{what} of shuffled edges, {called(variant)}", case)


def a_batch_is_its_graphs(aggregator: Aggregator) -> None:
    """Outputs and variances of every graph of a batch are those of the graph alone."""
    for case, variant in product((BATCH, DIRECTED_BATCH), Variant):
        whole, x = case.graph, aggregator.messages(case.graph)
        view = _drawn(case.law(variant))
        together = _results(aggregator.alone(whole), view, x)
        for rows, part, carry in _parts(whole):
            alone = _carried(view, rows, part, carry)
            found = _results(aggregator.on(whole)(part, carry, x.dtype), alone, x[rows])
            for what, value in found.items():
                what_of = f"{what} of one graph of a batch, {called(variant)}"
                expect(value, together[what][rows], ROUNDING, what_of, case, together[what])


def single_precision_is_near_double(aggregator: Aggregator) -> None:
    """Outputs and variances in float32 are within 2e-5 of those in float64, relative to the largest."""
    for case in CASES:
        x = aggregator.messages(case.graph)
        for variant in Variant:
            view = _drawn(case.law(variant))
            double = _results(aggregator.alone(case.graph), view, x)
            single = _results(aggregator.alone(case.graph, torch.float), view, x.float())
            for what, found in single.items():
                if found.dtype != torch.float:
                    raise AssertionError(f"{what} in float32, {called(variant)}, {case}: got {found.dtype}")
                expect(found.double(), double[what], SINGLE, f"{what} in float32, {called(variant)}", case)


def moments_follow_the_rates(aggregator: Aggregator) -> None:
    """Slopes of moments and variances in p and q: finite everywhere, and inside those of finite differences."""
    for case in CASES:
        rates = _leaves(case)
        values = _of_rates(aggregator, case, Variant.OF)(*rates).sum()
        slopes = torch.autograd.grad(values, rates, allow_unused=True, materialize_grads=True)
        if not bool(torch.stack(slopes).isfinite().all()):
            raise AssertionError(f"slopes in p and q, {case}: got {[float(slope) for slope in slopes]}")
    # Moments with an error of their own may have one in their slopes.
    allowed = max(1e-6, aggregator.tolerance / 100.0)
    options = {"fast_mode": True, "check_forward_ad": True, "check_undefined_grad": False}
    for variant in Variant:
        try:
            gradcheck(_of_rates(aggregator, INSIDE[0], variant), _leaves(INSIDE[0]), atol=allowed, **options)
        except GradcheckError as wrong:
            raise AssertionError(f"slopes in p and q, {called(variant)}, {INSIDE[0]}: {wrong}") from None


def equal_keys_promise_equal_aggregation(aggregator: Aggregator) -> None:
    """Coefficients from other scores or weights, or in another precision, must not share what is remembered by key."""
    for case in INSIDE:
        build, view = aggregator.on(case.graph), _drawn(case.law(Variant.OFS))
        mine = aggregator.alone(case.graph)
        if mine.key is None:
            continue
        if mine.key == aggregator.alone(case.graph, torch.float).key:
            raise AssertionError(f"key {mine.key!r}, {case}: equal in float32 and float64; make the dtype part of it")
        other = build(case.graph, Carry(_other, _other), torch.double)
        if mine.key != other.key:
            continue
        pairs = zip(_all_weights(mine, view), _all_weights(other, view))
        if not all(torch.equal(one, two) for one, two in pairs):
            raise AssertionError(f"key {mine.key!r}, {case}: equal keys, but other coefficients; let it be None")


def _results(coefficients: Coefficients, view: View, x: Tensor) -> Results:
    """What a pass and the rate step compute, [n, ...] each."""
    law = view.law
    spread = variance(Sent(coefficients, x), law)
    outputs = {
        "the clean aggregation": propagate(law.graph, coefficients, x),
        "the aggregation over a view": propagate(view, coefficients, x),
        "inference": propagate(MeanView(law), coefficients, x),
    }
    return outputs | {"variance from dropping, and in all": torch.stack([spread.drop, spread.total], -1)}


def _drawn(law: Law) -> View:
    """One view of a law, the same on every call."""
    return sample(replace(law, generator=torch.Generator().manual_seed(4)))


def _renumbered(graph: Graph) -> tuple[Tensor, Graph, Carry]:
    """Old node of each new one, shuffled within each graph; the graph in new numbers; how values come there."""
    random = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(6))
    order = torch.argsort(graph.batch + random)
    other = _like(graph, torch.argsort(order)[graph.edge_index], graph.batch)
    return order, other, Carry(_picked(order), _picked(other.order))


def _parts(graph: Graph) -> Iterator[tuple[Tensor, Graph, Carry]]:
    """Nodes of each graph of a batch, the graph alone, and how values come there."""
    for b in range(graph.num_graphs):
        nodes, entries = (graph.batch == b).nonzero().squeeze(1), graph.batch[graph.pattern.target] == b
        part = _like(graph, graph.edge_index[:, entries] - nodes[0], graph.batch[nodes] - b)
        yield nodes, part, Carry(_picked(nodes), _picked(entries))


def _like(graph: Graph, edge_index: Tensor, batch: Tensor) -> Graph:
    """Another graph, directed like this one."""
    return Graph.from_edge_index(edge_index, batch=batch, directed=graph.directed)


def _picked(which: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: x[which]


def _carried(view: View, nodes: Tensor, graph: Graph, carry: Carry) -> View:
    """A view on a graph made of some ``nodes``, in their order."""
    place = torch.full((view.graph.num_nodes,), -1).index_put((nodes,), torch.arange(len(nodes)))
    once, directions = graph.directions.entries(view.added), graph.directions
    ends = place[torch.stack([view.added.target[once], view.added.source[once]])]
    ends = ends[:, (ends >= 0).all(0)]
    target, source = ends.sort(0).values if directions.together else ends
    sorting = torch.argsort(target * graph.num_nodes + source)
    added = directions.pattern(target[sorting], source[sorting], graph.num_nodes)
    return View(view.law.on(graph), carry.edges(view.kept), added)


def _leaves(case: Case) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (case.p, case.q))


def _of_rates(aggregator: Aggregator, case: Case, variant: Variant) -> Callable[[Tensor, Tensor], Tensor]:
    """All moments and the variance of the logits, in one row, as a function of p and q."""
    graph, coefficients, x = case.graph, aggregator.alone(case.graph), aggregator.messages(case.graph)

    def flat(moments: Moments) -> list[Tensor]:
        return [moments.edges.flatten(), moments.loop.flatten(), moments.nonedges.apply(x).flatten()]

    def values(p: Tensor, q: Tensor) -> Tensor:
        law = Law(graph, Rates(p, q), variant)
        moments = flat(coefficients.mean(law)) + flat(coefficients.variance(law)) + flat(coefficients.covariance(law))
        return torch.cat([*moments, variance(Sent(coefficients, x), law).total.flatten()])

    return values


def _all_weights(coefficients: Coefficients, view: View) -> list[Tensor]:
    clean, seen, mean = coefficients.clean(), coefficients.on(view), coefficients.mean(view.law)
    return [clean.edges, clean.loop, seen.edges, seen.loop, seen.added, mean.edges, mean.loop]


def _other(x: Tensor) -> Tensor:
    return 2.0 * x + 1.0
