"""The index space of node pairs, unordered or ordered: ranks, random subsets, and the pattern of a list of pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.sparse import Pattern, row_pointer


def pair_count(size: Tensor, directed: bool) -> Tensor:
    """Number of pairs of n nodes: n(n−1)/2, or n(n−1) ordered ones."""
    return size * (size - 1) if directed else size * (size - 1) // 2


def rank_pairs(target: Tensor, source: Tensor, size: Tensor, directed: bool) -> Tensor:
    """Position of a pair in the lexicographic list of all pairs of ``size`` nodes; unordered ones have target < source.

    >>> rank_pairs(torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor(3), directed=False)
    tensor([1, 2])
    """
    if directed:
        return target * (size - 1) + source - (source > target).long()
    return target * (2 * size - target - 1) // 2 + (source - target - 1)


def unrank_pairs(rank: Tensor, size: Tensor, directed: bool) -> tuple[Tensor, Tensor]:
    """The pair (target, source) at a position: the inverse of `rank_pairs`, exact for n up to 10^7.

    The root is taken in double precision and may be off by one near a row boundary; integers put it right.
    """
    if directed:
        others = (size - 1).clamp(min=1)  # a lone node has no pair to find
        target, place = rank // others, rank % others
        return target, place + (place >= target).long()
    edge = 2 * size - 1
    low = ((edge.double() - (edge.double().square() - 8.0 * rank.double()).clamp(min=0).sqrt()) / 2).long()
    low = low - (low * (edge - low) // 2 > rank).long()
    low = low + ((low + 1) * (edge - low - 1) // 2 <= rank).long()
    return low, rank - low * (edge - low) // 2 + low + 1


def bernoulli_positions(total: int, rate: float, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Each of 0 … total−1 with probability ``rate``, independently, ascending; cost is the number of successes.

    The gaps between successes are geometric, ⌊log U / log(1−rate)⌋ + 1, so the walk jumps from one to the next.
    """
    if total == 0 or rate <= 0.0:
        return torch.empty(0, dtype=torch.long, device=device)
    log_miss = torch.log1p(torch.tensor(-rate, dtype=torch.double, device=device))
    walked, parts = -1, []
    while walked < total - 1:
        expected = (total - 1 - walked) * rate
        draws = int(expected + 6.0 * expected**0.5 + 16.0)  # falls short about once in 10^9 walks, then draws on
        uniform = 1.0 - torch.rand(draws, dtype=torch.double, generator=generator, device=device)  # in (0, 1]
        # A gap past the end need not be known exactly; the clamp keeps tiny rates inside the integers.
        gaps = uniform.log_().div_(log_miss).floor_().clamp_(max=float(total)).long().add_(1)
        positions = gaps.cumsum_(0).add_(walked)
        parts.append(positions)
        walked = int(positions[-1])
    walk = torch.cat(parts)
    return walk[: int(torch.searchsorted(walk, total))]


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


def pattern_of_pairs(target: Tensor, source: Tensor, nodes: int, directed: bool) -> Pattern:
    """The pattern of pairs sorted by target, then source; of unordered ones, target < source, both directions."""
    if directed:
        return Pattern.general(row_pointer(target, nodes), source, nodes)
    count = target.numel()
    by_source = torch.argsort(source.int(), stable=True)  # node ids fit 32 bits, which sort twice as fast
    below, above = row_pointer(source, nodes), row_pointer(target, nodes)  # entries left and right of the diagonal
    order = torch.arange(count, device=target.device)
    right = order + below[target + 1]  # row `target`: its entries left of the diagonal come first
    left = torch.empty_like(order)
    left[by_source] = order + above[source[by_source]]
    column, transposition = target.new_empty(2 * count), target.new_empty(2 * count)
    column[right], column[left] = source, target
    transposition[right], transposition[left] = left, right
    return Pattern(below + above, column, nodes, transposition)
