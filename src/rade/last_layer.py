"""What the logits see of the last aggregation: its inputs, and the linear map from it to the logits."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import JumpingKnowledge
from torch_geometric.nn import Linear as PyGLinear

from rade.convert import convolutions
from rade.graph import Graph
from rade.moments.base import Coefficients
from rade.nn.base import CorrectedConv, linear_part, pushed


@dataclass
class Trace:
    """The convolutions that a forward pass called, with their inputs, and the linear layers after the last of them."""

    calls: list[tuple[str, Module, dict[str, Any]]] = field(default_factory=list)
    width: int = 0  # of the last convolution's output
    linears: list[Module] = field(default_factory=list)

    @property
    def last(self) -> tuple[CorrectedConv, dict[str, Any]]:
        """The last convolution and its inputs by parameter name."""
        if not self.calls:
            raise ValueError("the forward pass called none of the model's supported convolutions")
        _, conv, inputs = self.calls[-1]
        return cast(CorrectedConv, conv), inputs


@contextmanager
def tracing(model: Module) -> Iterator[Trace]:
    """Record which convolutions and linear layers a forward pass calls."""
    trace = Trace()
    convs = convolutions(model)
    inside = {id(part) for conv in convs.values() for part in conv.modules()}
    hooks = [conv.register_forward_pre_hook(_entering(trace, path), with_kwargs=True) for path, conv in convs.items()]
    hooks += [conv.register_forward_hook(_leaving(trace)) for conv in convs.values()]
    for module in model.modules():
        if isinstance(module, torch.nn.Linear | PyGLinear) and id(module) not in inside:
            hooks.append(module.register_forward_hook(lambda m, *_: trace.linears.append(m)))
    try:
        yield trace
    finally:
        for hook in hooks:
            hook.remove()


def _entering(trace: Trace, path: str) -> Any:
    def hook(conv: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(conv.forward).bind(*args, **kwargs)
        inputs = {k: v.detach() if isinstance(v, Tensor) else v for k, v in bound.arguments.items()}
        trace.calls.append((path, conv, inputs))
        trace.linears.clear()

    return hook


def _leaving(trace: Trace) -> Any:
    def hook(conv: Module, args: tuple[Any, ...], output: Tensor) -> None:
        trace.width = output.shape[-1]

    return hook


@torch.no_grad()
def logit_messages(trace: Trace, graph: Graph, head: Tensor | None) -> tuple[Coefficients, Tensor]:
    """The last convolution's coefficients and its messages pushed to the logits, [n, C] or [n, H, C] (D4)."""
    conv, inputs = trace.last
    rest = {name: value for name, value in inputs.items() if name not in ("x", "edge_index")}
    return conv.logit_messages(head, graph, inputs["x"], **rest)


@torch.no_grad()
def head_matrix(model: Module, trace: Trace, classes: int, head: Module | None) -> Tensor | None:
    """The linear map [C, F] from the last convolution to the logits; None where its output is the logits.

    Given ``head``, its linear part; else the linear layers called after the last convolution, if they form a chain
    that ends at the logits (activations between them are dropped, the paper's linear assumption).
    """
    if head is not None:
        matrix = linear_part(None, head)
        if matrix is None:
            raise ValueError(f"head must be or contain linear layers, got {type(head).__name__}")
        return _fitted(model, matrix, trace.width, classes)
    if not trace.linears:
        if trace.width != classes:
            raise ValueError(_ambiguous(f"no linear layer, but {trace.width} features and {classes} logits"))
        return None
    matrix = None
    for layer in reversed(trace.linears):
        weight = cast(Tensor, layer.weight)
        if matrix is not None and matrix.shape[1] != weight.shape[0]:
            raise ValueError(_ambiguous(f"{len(trace.linears)} linear layers that do not form a chain"))
        matrix = pushed(matrix, weight)
    assert matrix is not None
    return _fitted(model, matrix, trace.width, classes)


def _fitted(model: Module, matrix: Tensor, width: int, classes: int) -> Tensor:
    if matrix.shape[0] != classes:
        raise ValueError(_ambiguous(f"linear layers that give {matrix.shape[0]} values for {classes} logits"))
    concatenates = any(isinstance(m, JumpingKnowledge) and m.mode == "cat" for m in model.modules())
    if concatenates and matrix.shape[1] > width:
        return matrix[:, -width:]  # jumping knowledge puts the last layer's output last
    if matrix.shape[1] != width:
        raise ValueError(_ambiguous(f"linear layers that take {matrix.shape[1]} features where it gives {width}"))
    return matrix


def _ambiguous(found: str) -> str:
    return (
        f"cannot tell the linear head: after the last convolution the model calls {found}; say which layer maps the "
        "last convolution's (pooled) output to the logits, RADE(model, head=model.lin), or pass adaptive=False"
    )
