"""Random subsets of a long list, at the cost of what is drawn, and the pattern of a list of pairs of nodes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rade.graph.sparse import Pattern, places, row_pointer, stable_order

TINY = 1e-9  # above it, more draws than memory holds cannot leave the integers


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


def pattern_of_pairs(target: Tensor, source: Tensor, nodes: int, directed: bool) -> Pattern:
    """The pattern of pairs sorted by target, then source; of unordered ones, target < source, both directions."""
    if directed:
        return Pattern.general(row_pointer(target, nodes), source, nodes)
    # In a row, entries left of the diagonal come first: those of pairs whose target is smaller.
    row, column = torch.cat([source, target]), torch.cat([target, source])
    order = stable_order(row, nodes)
    back = places(order, order.numel()).roll(target.numel()).index_select(0, order)
    return Pattern.of_rows(row.index_select(0, order), column.index_select(0, order), nodes, back)
