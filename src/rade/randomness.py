"""Generators for views: they follow torch.manual_seed, and every rank of a distributed run has a stream of its own."""

from __future__ import annotations

import torch

GOLDEN = 0x9E3779B97F4A7C15  # spreads small differences over all bits of a seed


def seeded() -> torch.Generator:
    """A new generator, seeded from torch's default one."""
    seed = int(torch.randint(2**62, (1,)))
    return torch.Generator().manual_seed((seed + GOLDEN * rank()) % 2**63)


def branch_off(generator: torch.Generator) -> None:
    """After all ranks restored the same state: all but the first go on in streams of their own."""
    if rank() > 0:
        drawn = int(torch.randint(2**62, (1,), generator=generator))
        generator.manual_seed((generator.initial_seed() + drawn + rank()) % 2**63)


def rank() -> int:
    """The rank of this process in a distributed run, 0 without one."""
    here = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if here else 0
