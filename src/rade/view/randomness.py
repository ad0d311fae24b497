"""Generators for views: they follow torch.manual_seed, and every rank of a distributed run has a stream of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from rade.distributed import rank

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


@contextmanager
def returning(generator: torch.Generator | None) -> Iterator[None]:
    """Afterwards the generator (torch's own for None) stands where it stood: looking at a model must not train it."""
    used = torch.default_generator if generator is None else generator
    state = used.get_state()
    try:
        yield
    finally:
        used.set_state(state)


def packed(generator: torch.Generator) -> dict[str, Tensor]:
    """The state of a generator as tensors."""
    return {"generator": generator.get_state(), "seed": torch.tensor(generator.initial_seed() % 2**63)}


def unpack(generator: torch.Generator, state: dict[str, Tensor]) -> None:
    """Restore a packed state; one from another kind of device cannot be continued, and restarts from its seed."""
    if state["generator"].numel() == generator.get_state().numel():
        generator.set_state(state["generator"].cpu())
    else:
        generator.manual_seed(int(state["seed"]))


def unpacked(state: dict[str, Tensor]) -> torch.Generator:
    """A generator from its packed state, on the CPU; it moves to the graph's device when first used."""
    generator = torch.Generator()
    unpack(generator, state)
    return generator


def moved(generator: torch.Generator, device: torch.device) -> torch.Generator:
    """A generator on another device, seeded by a draw from the given one."""
    drawn = torch.randint(2**62, (1,), generator=generator, device=generator.device)
    return torch.Generator(device).manual_seed(int(drawn))
