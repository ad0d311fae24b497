"""The index spaces of node pairs: ranks, random subsets, and the symmetric pattern of a list of pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.sparse import Pattern, row_pointer


def pair_count(size: Tensor) -> Tensor:
    """Number of unordered pairs of n nodes, n(n−1)/2."""
    return size * (size - 1) // 2


def rank_pairs(low: Tensor, high: Tensor, size: Tensor) -> Tensor:
    """Position of the pair low < high in the lexicographic list of all pairs of ``size`` nodes."""
    return low * (2 * size - low - 1) // 2 + (high - low - 1)


def unrank_pairs(rank: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The pair (low, high) at a position: the inverse of `rank_pairs`, exact for n up to 10^7.

    The root is taken in double precision and may be off by one near a row boundary; integers put it right.
    """
    edge = 2 * size - 1
    low = ((edge.double() - (edge.double().square() - 8.0 * rank.double()).clamp(min=0).sqrt()) / 2).long()
    low = low - (_row_start(low, size) > rank).long()
    low = low + (_row_start(low + 1, size) <= rank).long()
    return low, rank - _row_start(low, size) + low + 1


def _row_start(low: Tensor, size: Tensor) -> Tensor:
    return low * (2 * size - low - 1) // 2


def rank_ordered(target: Tensor, source: Tensor, size: Tensor) -> Tensor:
    """Position of the ordered pair (target, source) in the lexicographic list of all those of ``size`` nodes."""
    return target * (size - 1) + source - (source > target).long()


def unrank_ordered(rank: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The ordered pair (target, source) at a position: the inverse of `rank_ordered`."""
    others = (size - 1).clamp(min=1)  # a lone node has no pair to find
    target, place = rank // others, rank % others
    return target, place + (place >= target).long()


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


def symmetric_pattern(low: Tensor, high: Tensor, nodes: int) -> Pattern:
    """Both directions of the pairs low < high (sorted by low, then high) as one CSR pattern, by one stable sort."""
    count = low.numel()
    by_high = torch.argsort(high.int(), stable=True)  # node ids fit 32 bits, which sort twice as fast
    below, above = row_pointer(high, nodes), row_pointer(low, nodes)  # entries left and right of the diagonal
    rowptr = below + above
    order = torch.arange(count, device=low.device)
    right = order + below[low + 1]  # row `low`: its entries left of the diagonal come first
    left = torch.empty_like(order)
    left[by_high] = order + above[high[by_high]]
    source, transposition = low.new_empty(2 * count), low.new_empty(2 * count)
    source[right], source[left] = high, low
    transposition[right], transposition[left] = left, right
    return Pattern(rowptr, source, nodes, transposition)
