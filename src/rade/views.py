"""Random views of a graph: exactly i.i.d. drops and additions, at the cost of the edges and of what is added."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rade.distribution import Distribution, Rates
from rade.graph.graph import Graph
from rade.graph.sparse import Pattern
from rade.runtime import by_fields, rank

TINY = 1e-9  # above it, more draws than memory holds cannot leave the integers
GOLDEN = 0x9E3779B97F4A7C15  # spreads small differences over all bits of a seed


@dataclass(frozen=True, eq=False)
class View:
    """One random view A': which edges were kept and which non-edges added."""

    distribution: Distribution
    kept: Tensor  # [E] bool, equal for both directions of an undirected edge
    added: Pattern  # both directions of undirected additions
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)  # sums of like layers

    @property
    def graph(self) -> Graph:
        """The clean graph under it."""
        return self.distribution.graph

    @property
    def rates(self) -> Rates:
        """The rates it was drawn with."""
        return self.distribution.rates

    @property
    def degree(self) -> Tensor:
        """Number of neighbors that each node receives messages from, [n]."""
        return self.distribution.graph.pattern.row_sum(self.kept.int()) + self.added.lengths

    @property
    def edge_index(self) -> Tensor:
        """[2, E'] of the view, kept edges first."""
        added = torch.stack([self.added.source, self.added.target])
        return torch.cat([self.graph.edge_index[:, self.kept], added], dim=1)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return by_fields(self)

    def kept_as_given(self) -> Tensor:
        """[given] which edges of the caller's edge_index were kept, in its order; self-loops always are."""
        if self.graph.entry is None:
            return torch.empty_like(self.kept).index_copy_(0, self.graph.order, self.kept)
        own = self.graph.entry < 0
        return self.kept[self.graph.entry.clamp(min=0)] | own if self.kept.numel() else own


def sample_view(graph: Graph, rates: Rates, generator: torch.Generator | None = None) -> View:
    """Draw a view of a graph at given rates, with all other choices at their defaults.

    >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    >>> sample_view(graph, Rates(p=0.0, q=1.0)).edge_index.shape
    torch.Size([2, 6])
    """
    return draw(Distribution(graph, rates), generator)


def draw(distribution: Distribution, generator: torch.Generator | None = None) -> View:
    """Draw one view (Eq. 6): keep every edge with probability 1−p, add every non-edge with probability q.

    Costs O(edges + additions). All randomness comes from the generator, torch's default one if None.
    """
    graph, (p, q) = distribution.graph, distribution.rates.numbers
    if p == 0.0:
        kept = torch.ones(graph.pattern.size, dtype=torch.bool, device=graph.device)
    else:
        drawn = torch.rand(graph.num_edges, generator=generator, device=graph.device)
        kept = (drawn >= p).index_select(0, graph.edge_of_entry)
    ranks = _fixed_ranks if distribution.views.sampling == "fixed" else _bernoulli_ranks
    return View(distribution, kept, graph.pairs_at(ranks(graph, q, generator)))


def _bernoulli_ranks(graph: Graph, q: float, generator: torch.Generator | None) -> Tensor:
    """Walk all pairs, then discard the edges: what is left of i.i.d. Bernoulli draws is i.i.d. Bernoulli."""
    found = bernoulli_positions(graph.num_pairs, q, generator, graph.device)
    if graph.num_edges == 0:
        return found
    at = torch.searchsorted(graph.edge_rank, found).clamp_(max=graph.num_edges - 1)
    return found[graph.edge_rank.index_select(0, at) != found]


def _fixed_ranks(graph: Graph, q: float, generator: torch.Generator | None) -> Tensor:
    """round(q · non-edges) of them, the paper's footnote; the k-th non-edge has rank k + number of edges before it."""
    nonedges = graph.num_nonedges
    chosen = fixed_positions(nonedges, round(q * nonedges), generator, graph.device)
    before = graph.edge_rank - torch.arange(graph.num_edges, device=graph.device)
    return chosen + torch.searchsorted(before, chosen, right=True)


def bernoulli_positions(total: int, rate: float, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Each of 0 … total−1 with probability ``rate``, independently, ascending; cost is the number of successes.

    The gaps between successes are geometric, ⌊log U / log(1−rate)⌋ + 1, so the walk jumps from one to the next.
    """
    if total == 0 or rate <= 0.0:
        return torch.empty(0, dtype=torch.long, device=device)
    log_miss = math.log1p(-rate) if rate < 1.0 else -math.inf
    walked, parts = -1, []
    while walked < total - 1:
        expected = (total - 1 - walked) * rate
        draws = int(expected + 6.0 * expected**0.5 + 16.0)  # falls short about once in 10^9 walks, then draws on
        uniform = 1.0 - torch.rand(draws, dtype=torch.double, generator=generator, device=device)  # in (0, 1]
        gaps = uniform.log_().div_(log_miss)
        if rate < TINY:  # a gap past the end need not be known exactly, but fit into an integer
            gaps.clamp_(max=float(total))
        walk = gaps.add_(1.0).long().cumsum_(0).add_(walked)
        inside = int(torch.searchsorted(walk, total))
        parts.append(walk[:inside])
        walked = total if inside < draws else int(walk[-1])
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def fixed_positions(total: int, count: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """A uniform subset of ``count`` of 0 … total−1, without replacement, ascending."""
    if 2 * count > total:
        left_out = torch.ones(total, dtype=torch.bool, device=device)
        left_out[fixed_positions(total, total - count, generator, device)] = False
        return left_out.nonzero().squeeze(1)
    # Distinct values among uniform draws are a uniform subset of their number; thinning it keeps it uniform.
    chosen = torch.empty(0, dtype=torch.long, device=device)
    while chosen.numel() < count:
        draws = torch.randint(total, (2 * (count - chosen.numel()) + 16,), generator=generator, device=device)
        chosen = torch.unique(torch.cat([chosen, draws]))
    keep = torch.randperm(chosen.numel(), generator=generator, device=device)[:count]
    return chosen[keep].sort().values


def seeded() -> torch.Generator:
    """A new generator, seeded from torch's default one; every rank of a distributed run has a stream of its own."""
    seed = int(torch.randint(2**62, (1,)))
    return torch.Generator().manual_seed((seed + GOLDEN * rank()) % 2**63)


def branched(
    generator: torch.Generator, number: int = 0, device: torch.device | None = None
) -> torch.Generator:
    """A stream of its own, by its number, for a copy, a rank or another device; the generator stays where it is."""
    with returning(generator):
        drawn = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    return torch.Generator(device or generator.device).manual_seed((drawn + GOLDEN * number) % 2**63)


@contextmanager
def returning(generator: torch.Generator | None) -> Iterator[None]:
    """Afterwards the generator (torch's own for None) is where it was: looking at a model must not train it."""
    used = torch.default_generator if generator is None else generator
    state = used.get_state()
    try:
        yield
    finally:
        used.set_state(state)


def packed(generator: torch.Generator) -> Tensor:
    """The state of a generator as one tensor: its seed in 8 bytes, then what torch saves."""
    seed = torch.tensor([generator.initial_seed() % 2**63]).view(torch.uint8)
    return torch.cat([seed, generator.get_state().cpu()])


def unpack(generator: torch.Generator, state: Tensor) -> None:
    """Restore a packed state; one from another kind of device cannot be continued, and restarts from its seed."""
    seed, rest = state[:8].cpu().clone(), state[8:].cpu().clone()
    if rest.numel() == generator.get_state().numel():
        generator.set_state(rest)
    else:
        generator.manual_seed(int(seed.view(torch.long)))
