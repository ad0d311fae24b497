"""Independent random streams derived from one seed."""

import numpy as np
import torch


def derive(seed: int, *keys: int) -> int:
    """A seed for the stream named by `keys`: equal for equal arguments, unrelated otherwise.

    >>> derive(0, 1) == derive(0, 1), derive(0, 1) == derive(1, 0)
    (True, False)
    """
    return int(np.random.SeedSequence([seed, *keys]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(seed: int, *keys: int, device: str = "cpu") -> torch.Generator:
    """A torch generator for the stream named by `keys`."""
    return torch.Generator(device).manual_seed(derive(seed, *keys))
