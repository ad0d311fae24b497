"""Drawing views: exactly i.i.d. drops and additions, at the cost of the edges and of what is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rade.graph.adjacency import LayerKey
from rade.graph.graph import Graph
from rade.graph.pairs import bernoulli_positions, fixed_positions
from rade.graph.sparse import Pattern
from rade.memory import Memo
from rade.view.law import Law
from rade.view.rates import Rates, number
from rade.view.view import Lawful, MeanView, View


@dataclass(frozen=True, eq=False)
class FreshViews(Lawful):
    """An independent view for every call of a convolution, found again by its layer: recomputation meets the same view.

    Calls that a backward pass repeats do not tell their number, so a layer that was called more than once is refused.
    """

    memo: Memo = field(default_factory=Memo, init=False, repr=False)
    calls: Counter[Hashable] = field(default_factory=Counter, init=False, repr=False)
    # The backward pass in which it was made, -1 outside of any.
    within: int = field(default_factory=torch._C._current_graph_task_id, init=False, repr=False)

    def enter(self, layer: Hashable) -> None:
        """Count a call of a layer; in a backward pass that began since, it is one of before."""
        if torch._C._current_graph_task_id() == self.within:
            self.calls[layer] += 1
        elif self.calls[layer] > 1:
            raise RuntimeError(
                f"{type(layer).__name__} was called {self.calls[layer]} times in one pass, each on a view of its own, "
                "and activation checkpointing cannot tell them apart; leave it out, or share one view, "
                "views=rade.Views(shared=True)"
            )

    def for_layer(self, layer: LayerKey) -> View:
        """The view of the present call of a layer, or of the first to come, drawn when it is first asked for."""
        return self.memo.once((layer, max(self.calls[layer[0]], 1)), lambda: sample(self.law))


def for_training(law: Law) -> View | FreshViews | MeanView:
    """What a training pass runs on: views, or the mean over them where ``law.views`` says that nothing is drawn."""
    return MeanView(law) if law.views.sampling == "expected" else draw(law)


def draw(law: Law) -> View | FreshViews:
    """Random views for one pass: one for all layers, or one for each, as ``law.views`` says."""
    return sample(law) if law.views.shared else FreshViews(law)


def sample(law: Law) -> View:
    """Draw one view (Eq. 6): keep every edge with probability 1−p, add every non-edge with probability q.

    Costs O(edges + additions). All randomness comes from the law's generator, also that of estimates made for a view.
    """
    graph, rates, generator = law.graph, law.rates, law.generator
    kept = _kept(graph, number(rates.p), generator)
    rank = _SAMPLERS[law.views.sampling](graph, number(rates.q), generator)
    return View(law.afresh(), kept, _added(graph, rank))


def sample_view(graph: Graph, rates: Rates, generator: torch.Generator | None = None) -> View:
    """Draw a view of a graph at given rates, with all other choices at their defaults.

    >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    >>> sample_view(graph, Rates(p=0.0, q=1.0)).edge_index.shape
    torch.Size([2, 6])
    """
    return sample(Law(graph, rates, generator=generator))


def _kept(graph: Graph, p: float, generator: torch.Generator | None) -> Tensor:
    """One Bernoulli(1−p) per edge, told to both directions of an undirected one."""
    if p == 0.0:
        return torch.ones(graph.pattern.size, dtype=torch.bool, device=graph.device)
    drawn = torch.rand(graph.num_edges, generator=generator, device=graph.device) >= p
    return graph.directions.spread(drawn, graph.entries, graph.pattern)


def _bernoulli_ranks(graph: Graph, q: float, generator: torch.Generator | None) -> Tensor:
    """Walk all pairs, then discard the edges: what is left of i.i.d. Bernoulli draws is i.i.d. Bernoulli."""
    rank = bernoulli_positions(graph.num_pairs, q, generator, graph.device)
    if graph.num_edges == 0:
        return rank
    at = torch.searchsorted(graph.edge_rank, rank).clamp_(max=graph.num_edges - 1)
    return rank[graph.edge_rank[at] != rank]


def _fixed_ranks(graph: Graph, q: float, generator: torch.Generator | None) -> Tensor:
    """round(q · non-edges) of them, the paper's footnote; the k-th non-edge has rank k + number of edges before it."""
    nonedges = graph.num_nonedges
    chosen = fixed_positions(nonedges, round(q * nonedges), generator, graph.device)
    before = graph.edge_rank - torch.arange(graph.num_edges, device=graph.device)
    return chosen + torch.searchsorted(before, chosen, right=True)


_SAMPLERS = {"bernoulli": _bernoulli_ranks, "fixed": _fixed_ranks, "expected": _bernoulli_ranks}


def _added(graph: Graph, rank: Tensor) -> Pattern:
    """Ranks in the common pair space of a batch, ascending, as a pattern."""
    directions = graph.directions
    if graph.num_graphs == 1:
        target, source = directions.unrank(rank, graph.sizes)
    else:
        of = torch.searchsorted(graph.pair_offset, rank, right=True) - 1
        target, source = directions.unrank(rank - graph.pair_offset[of], graph.sizes[of])
        target, source = target + graph.ptr[of], source + graph.ptr[of]
    return directions.pattern(target, source, graph.num_nodes)
