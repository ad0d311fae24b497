"""Generators for views: they follow torch.manual_seed, and every rank of a distributed run has a stream of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from rade.distributed import rank

GOLDEN = 0x9E3779B97F4A7C15  # spreads small differences over all bits of a seed
SEED = 8  # bytes


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


def packed(generator: torch.Generator) -> Tensor:
    """The seed and the state of a generator in one tensor of bytes, which can be cloned and moved like any other."""
    seed = torch.tensor([generator.initial_seed() % 2**63])
    return torch.cat([seed.view(torch.uint8), generator.get_state()])


def unpack(generator: torch.Generator, state: Tensor | dict[str, Tensor]) -> None:
    """Restore a packed state; one from another kind of device cannot be continued, and restarts from its seed.

    Dicts with both are how earlier versions packed it.
    """
    if isinstance(state, Tensor):
        state = state.cpu()
        state = {"seed": state[:SEED].clone().view(torch.long), "generator": state[SEED:].clone()}
    if state["generator"].numel() == generator.get_state().numel():
        generator.set_state(state["generator"].cpu())
    else:
        generator.manual_seed(int(state["seed"]))


def branched(generator: torch.Generator, number: int) -> torch.Generator:
    """The stream of a copy, its ``number``-th; the generator itself stays where it is."""
    twin = torch.Generator(generator.device)
    twin.set_state(generator.get_state())
    drawn = int(torch.randint(2**62, (1,), generator=twin, device=twin.device))
    return twin.manual_seed((drawn + GOLDEN * number) % 2**63)


def unpacked(state: Tensor) -> torch.Generator:
    """A generator from its packed state, on the CPU; it moves to the graph's device when first used."""
    generator = torch.Generator()
    unpack(generator, state)
    return generator


def moved(generator: torch.Generator, device: torch.device) -> torch.Generator:
    """A generator on another device, seeded by a draw from the given one."""
    drawn = torch.randint(2**62, (1,), generator=generator, device=generator.device)
    return torch.Generator(device).manual_seed(int(drawn))
