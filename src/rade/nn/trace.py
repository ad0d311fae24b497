"""Which convolutions a forward pass called, and what the last of them reaches; told by hooks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import JumpingKnowledge
from torch_geometric.nn import Linear as PyGLinear

from rade.nn.base import CorrectedConv
from rade.nn.plain import LOOKS_ON


@dataclass
class Trace:
    """The convolutions that a forward pass called, with their inputs, and what the last of them reaches.

    ``after`` are the linear layers and batch norms, in order, that its output flows through; a skip connection's
    layers, which it does not reach, are none of them.
    """

    calls: list[tuple[str, CorrectedConv, dict[str, Any]]] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)  # inputs of the last convolution, with their derivatives
    output: Tensor | None = None  # of the last convolution
    after: list[Module] = field(default_factory=list)

    @property
    def last(self) -> tuple[CorrectedConv, dict[str, Any]]:
        """The last convolution and its inputs by parameter name."""
        self._require_calls()
        return self.calls[-1][1:]

    @property
    def width(self) -> int:
        """Number of features of the last convolution's output."""
        self._require_calls()
        assert self.output is not None
        return self.output.shape[-1]

    def _require_calls(self) -> None:
        if not self.calls:
            raise ValueError("the forward pass called none of the model's supported convolutions")

    def reaches(self, value: Tensor) -> bool:
        """Whether the last convolution's output went into ``value``; told by autograd, so True where it is off."""
        if self.output is None or self.output.grad_fn is None:
            return True
        stack, seen = [value.grad_fn], set()
        while stack:
            node = stack.pop()
            if node is self.output.grad_fn:
                return True
            if node is not None and node not in seen:
                seen.add(node)
                stack.extend(parent for parent, _ in node.next_functions)
        return False


def extras(inputs: dict[str, Any]) -> dict[str, Any]:
    """A convolution's inputs besides its features and its graph."""
    return {name: value for name, value in inputs.items() if name not in ("x", "edge_index")}


@contextmanager
def tracing(model: Module) -> Iterator[Trace]:
    """Record which convolutions a forward pass calls, and what the last one reaches."""
    trace = Trace()
    everything = dict(model.named_modules())  # one walk: a rate step on small graphs takes a few milliseconds
    parts = {path: everything[path] for path in everything if isinstance(everything[path], CorrectedConv)}
    # Jumping knowledge may weigh the layers by linear maps of its own; they are not on the way to the logits.
    closed = [*parts.values(), *(module for module in everything.values() if isinstance(module, JumpingKnowledge))]
    inside = {id(part) for module in closed for part in module.modules()}
    hooks = [part.register_forward_pre_hook(_entering(trace, path), with_kwargs=True) for path, part in parts.items()]
    hooks += [part.register_forward_hook(_leaving(trace)) for part in parts.values()]
    for module in everything.values():
        if id(module) not in inside and (isinstance(module, torch.nn.Linear | PyGLinear) or _is_affine(module)):
            hooks.append(module.register_forward_hook(_passing(trace)))
    try:
        yield trace
    finally:
        for hook in hooks:
            hook.remove()


def _entering(trace: Trace, path: str) -> Any:
    def hook(conv: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = {**dict(zip(_parameters(type(conv)), args)), **kwargs}  # type: ignore[arg-type]
        inputs = {k: v.detach() if isinstance(v, Tensor) else v for k, v in given.items()}
        trace.calls.append((path, cast(CorrectedConv, conv), inputs))
        trace.given = given
        trace.after.clear()

    return hook


@cache
def _parameters(kind: type[Module]) -> tuple[str, ...]:
    """The parameters of a layer's forward by position, read once."""
    return tuple(inspect.signature(kind.forward).parameters)[1:]


def _passing(trace: Trace) -> Any:
    def hook(layer: Module, args: tuple[Any, ...], output: Tensor) -> None:
        if trace.reaches(output):
            trace.after.append(layer)

    setattr(hook, LOOKS_ON, True)
    return hook


def _is_affine(module: Module) -> bool:
    """A batch norm that, at inference, scales deviations by fixed factors."""
    return isinstance(module, torch.nn.BatchNorm1d) and module.running_var is not None


def _leaving(trace: Trace) -> Any:
    def hook(conv: Module, args: tuple[Any, ...], output: Tensor) -> None:
        trace.output = output

    return hook
