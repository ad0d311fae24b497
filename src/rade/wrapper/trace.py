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

from rade.graph.graph import Graph
from rade.moments.base import Coefficients
from rade.nn.base import CorrectedConv, linear_part
from rade.wrapper.conversion import convolutions


@dataclass
class Trace:
    """The convolutions that a forward pass called, with their inputs, and what the last of them reaches.

    ``after`` are the linear layers and batch norms, in order, that its output flows through; a skip connection's
    layers, which it does not reach, are none of them.
    """

    calls: list[tuple[str, Module, dict[str, Any]]] = field(default_factory=list)
    output: Tensor | None = None  # of the last convolution
    after: list[Module] = field(default_factory=list)

    @property
    def last(self) -> tuple[CorrectedConv, dict[str, Any]]:
        """The last convolution and its inputs by parameter name."""
        self._require_calls()
        _, conv, inputs = self.calls[-1]
        return cast(CorrectedConv, conv), inputs

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


@contextmanager
def tracing(model: Module) -> Iterator[Trace]:
    """Record which convolutions a forward pass calls, and what the last one reaches."""
    trace = Trace()
    convs = convolutions(model)
    # Jumping knowledge may weigh the layers by linear maps of its own; they are not on the way to the logits.
    closed = [*convs.values(), *(module for module in model.modules() if isinstance(module, JumpingKnowledge))]
    inside = {id(part) for module in closed for part in module.modules()}
    hooks = [conv.register_forward_pre_hook(_entering(trace, path), with_kwargs=True) for path, conv in convs.items()]
    hooks += [conv.register_forward_hook(_leaving(trace)) for conv in convs.values()]
    for module in model.modules():
        if id(module) not in inside and (isinstance(module, torch.nn.Linear | PyGLinear) or _is_affine(module)):
            hooks.append(module.register_forward_hook(_passing(trace)))
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
        trace.after.clear()

    return hook


def _passing(trace: Trace) -> Any:
    def hook(layer: Module, args: tuple[Any, ...], output: Tensor) -> None:
        if trace.reaches(output):
            trace.after.append(layer)

    return hook


def _is_affine(module: Module) -> bool:
    """A batch norm that, at inference, scales deviations by fixed factors."""
    return isinstance(module, torch.nn.BatchNorm1d) and module.running_var is not None


def _leaving(trace: Trace) -> Any:
    def hook(conv: Module, args: tuple[Any, ...], output: Tensor) -> None:
        trace.output = output

    return hook


@torch.no_grad()
def logit_messages(trace: Trace, graph: Graph, head: Tensor | None) -> tuple[Coefficients, Tensor]:
    """The last convolution's coefficients and its messages pushed to the logits, [n, C] or [n, H, C]."""
    conv, inputs = trace.last
    rest = {name: value for name, value in inputs.items() if name not in ("x", "edge_index")}
    return conv.logit_messages(head, graph, inputs["x"], **rest)


@torch.no_grad()
def head_matrix(model: Module, trace: Trace, classes: int, head: Module | None) -> Tensor | None:
    """The linear map [C, F] from the last convolution to the logits; None where its output is the logits.

    Given ``head``, its linear part; else the linear layers and batch norms that the last convolution reaches, if they
    form a chain that ends at the logits (activations between them are dropped, the paper's linear assumption).
    """
    if head is not None:
        matrix = linear_part(None, head)
        if matrix is None:
            raise ValueError(f"head must be or contain linear layers, got {type(head).__name__}")
        return _fitted(_narrowed(matrix, trace.width, concatenates=True), classes)
    if not trace.after:
        if trace.width != classes:
            raise ValueError(_ambiguous(f"no linear layer, but {trace.width} features and {classes} logits"))
        return None
    concatenates = any(isinstance(m, JumpingKnowledge) and m.mode == "cat" for m in model.modules())
    matrix = None
    for layer in reversed(trace.after):
        matrix = linear_part(_narrowed(matrix, _outputs(layer), concatenates), layer)
    return _fitted(_narrowed(matrix, trace.width, concatenates), classes)


def _outputs(layer: Module) -> int:
    """Number of features that a linear layer or batch norm gives: its bias may be missing, its weight not."""
    return layer.num_features if isinstance(layer, torch.nn.BatchNorm1d) else len(cast(Tensor, layer.weight))


def _narrowed(matrix: Tensor | None, width: int, concatenates: bool) -> Tensor | None:
    """The columns of ``matrix`` that take ``width`` features; concatenated layers stand in order, the last one last."""
    if matrix is None or matrix.shape[1] == width:
        return matrix
    if concatenates and matrix.shape[1] > width:
        return matrix[:, -width:]
    raise ValueError(_ambiguous(f"linear layers that take {matrix.shape[1]} features where they get {width}"))


def _fitted(matrix: Tensor | None, classes: int) -> Tensor | None:
    if matrix is not None and matrix.shape[0] != classes:
        raise ValueError(_ambiguous(f"linear layers that give {matrix.shape[0]} values for {classes} logits"))
    return matrix


def _ambiguous(found: str) -> str:
    return (
        f"cannot tell the linear head: after the last convolution the model calls {found}; say which layer maps the "
        "last convolution's (pooled) output to the logits, RADE(model, head=model.lin), or pass adaptive=False"
    )


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """No gradients, but ordinary tensors: sorted graphs and operators are kept, and must serve training later."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every part has its own mode again, frozen layers too."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def path_of(model: Module, head: Module | None) -> str | None:
    """Where the head is in the model: a path survives copies, a reference would not."""
    if head is None:
        return None
    for path, module in model.named_modules():
        if module is head:
            return str(path)
    raise ValueError(f"head must be a layer of the model itself, but this {type(head).__name__} is not part of it")
