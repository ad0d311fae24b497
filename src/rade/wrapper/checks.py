"""What a wrapper asks of its arguments and of its model before it goes to work."""

from __future__ import annotations

import torch
from torch.nn import Module
from torch_geometric.nn import MessagePassing

from rade.control.rules import Rule


def require(**given: tuple[object, type]) -> None:
    """Refuse what is not a value of the wanted kind."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a rade.{kind.__name__}, got {value!r}")


def require_rule(rule: object) -> None:
    """Refuse what is no rule; a number is taken for constant rates, and told how they are said."""
    if isinstance(rule, int | float) and not isinstance(rule, bool):
        raise TypeError(f"rule must be a rade.Rule, got {rule!r}; constant rates are rade.Constant({rule}, {rule})")
    require(rule=(rule, Rule))


def is_explaining(model: Module) -> bool:
    """Whether torch_geometric.explain has put its masks into the layers: they then need the plain edge_index."""
    masked = [module for module in model.modules() if isinstance(module, MessagePassing) and module.explain]
    for module in masked:
        # PyG keeps the `propagate` that knows masks per class; that of a subclass may be its parent's compiled one.
        module.__dict__["propagate"] = MessagePassing.propagate.__get__(module, MessagePassing)
    return bool(masked)


def is_tracing() -> bool:
    """Whether torch.jit.trace looks on, which takes plain layers only."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def require_model(model: object) -> None:
    """Refuse what is no model, its class among it."""
    if isinstance(model, type):
        raise TypeError(f"RADE wraps a model, got the class {model.__name__}: build it, RADE({model.__name__}(...))")
    if not isinstance(model, Module):
        raise TypeError(f"RADE wraps a model, a torch.nn.Module, got {model!r}")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            "RADE replaces layers, and those of a scripted model are fixed: wrap it before torch.jit.script"
        )


def require_optimizer(optimizer: object) -> None:
    """Refuse what takes no steps; wrappers around optimizers are welcome."""
    if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "register_step_post_hook"):
        raise TypeError(f"follow takes the optimizer that steps, such as torch.optim.Adam(...), got {optimizer!r}")
