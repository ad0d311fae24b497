"""A module that stands in for another: what is set or deleted on it is so where it is read."""

from __future__ import annotations

from typing import Any

from torch.nn import Module


class StandIn(Module):
    """Passes names that the ``wrapped`` module holds, and it does not itself, on to that one.

    Methods of the wrapped module stay what they are, and subclasses of `RADE` keep all that they set.
    """

    wrapped: Module

    def __setattr__(self, name: str, value: Any) -> None:
        if is_wrapped(self, name):
            setattr(self.wrapped, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if is_wrapped(self, name):
            delattr(self.wrapped, name)
        else:
            super().__delattr__(name)


def is_wrapped(module: StandIn, name: str) -> bool:
    """Whether a name means something that the wrapped module holds."""
    own, parts = vars(module), vars(module).get("_modules", {})
    derived = StandIn not in type(module).__bases__  # from the class that stands in
    if derived or "wrapped" not in parts or name.startswith("__"):
        return False
    if name in own or name in parts or hasattr(type(module), name):
        return False
    held = vars(parts["wrapped"])
    kinds = (held, *(held.get(kind, ()) for kind in ("_parameters", "_buffers", "_modules")))
    settable = isinstance(getattr(type(parts["wrapped"]), name, None), property)
    return settable or any(name in kind for kind in kinds)
