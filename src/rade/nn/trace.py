"""What layers did in a pass, and the linear map from the last of them to the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import JumpingKnowledge, MessagePassing
from torch_geometric.nn import Linear as PyGLinear

from rade.correction import Adjacency
from rade.graph.graph import Graph
from rade.moments.base import Coefficients
from rade.nn.linear import linear_part
from rade.sums import Messages

LINEAR = (torch.nn.Linear, PyGLinear, torch.nn.BatchNorm1d)
OTHERWISE = "use rule=rade.NoiseRatio(), which looks at logits alone, or rule=rade.Constant()"
NO_MOMENTS = f"the forward pass called no convolution that has moments; {OTHERWISE}"
After = Callable[[Tensor | None], Tensor | None]  # from the map of an output to that of the sum before it


class Again(partial[Any]):
    """A call to be made later, maybe often: with the data objects, lists and dicts as they are now, and each time with
    copies of these, since a model may put features back into what it is called with.
    """

    def __new__(cls, function: Callable[..., Any], *args: object, **kwargs: object) -> Again:
        return super().__new__(cls, function, *map(_own, args), **{name: _own(value) for name, value in kwargs.items()})

    def __call__(self) -> Any:
        """Make it."""
        return self.func(*map(_own, self.args), **{name: _own(value) for name, value in self.keywords.items()})


def _own(value: object) -> object:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Data | HeteroData):
        return copy(value)
    if isinstance(value, dict):
        return {name: _own(part) for name, part in value.items()}
    return [_own(part) for part in value] if isinstance(value, list) else value


@dataclass(frozen=True, eq=False)
class Aggregated:
    """One aggregation of a pass."""

    adjacency: Adjacency
    coefficients: Coefficients
    messages: Tensor | Messages  # [n, F] or [n, H, F]
    output: Tensor
    after: After

    def pushed(self, head: Tensor | None) -> Tensor | Messages:
        """The messages through a linear map from the layer's output, [n, C] or [n, H, C]; None is the identity."""
        matrix = self.after(head)
        if isinstance(self.messages, Messages):
            return Messages(*(_through(matrix, part) for part in (self.messages.nodes, self.messages.edges)))
        return _through(matrix, self.messages)


def _through(matrix: Tensor | None, messages: Tensor) -> Tensor:
    if matrix is None:
        return messages
    if matrix.dim() == 3:  # a map for every head, [H, C, F]
        return torch.einsum("nhf,hcf->nhc", messages, matrix)
    return messages @ matrix.t()


@dataclass
class Trace:
    """What the layers of a model did in a pass, and what the last of them reaches.

    Attributes:
        sums: every aggregation, in order.
        calls: every call of a layer with moments, with its last aggregation.
        output: of the last layer.
        after: the linear layers and batch norms, in order, that it flows through; a skip connection's layers, which it
            does not reach, are none of them.
        with_gradients: whether the output of every aggregation shall have a gradient.
    """

    sums: list[Aggregated] = field(default_factory=list)
    calls: list[tuple[Module, Aggregated]] = field(default_factory=list)
    output: Tensor | None = None
    after: list[Module] = field(default_factory=list)
    with_gradients: bool = False
    uncorrected: Module | None = None  # the last layer, if it summed nothing by moments

    def aggregated(self, found: Aggregated) -> Tensor:
        """Note one aggregation; returns its output."""
        self.sums.append(found)
        if not self.with_gradients:
            return found.output
        # A first layer on constant features must have a gradient, too; a copy, lest the layer goes on in place.
        return found.output.requires_grad_().clone()

    def left(self, layer: Module, output: object) -> None:
        """Note that a layer has returned."""
        last = self.sums[-1] if self.sums else None
        self.uncorrected = layer if last is None or (self.calls and self.calls[-1][1] is last) else None
        if last is not None and self.uncorrected is None:
            self.calls.append((layer, last))
        self.output = output if isinstance(output, Tensor) else None
        self.after.clear()

    @property
    def graph(self) -> Graph:
        """That of the last aggregation by moments."""
        if not self.calls:
            raise ValueError(NO_MOMENTS)
        return self.calls[-1][1].adjacency.graph

    @property
    def last(self) -> Aggregated:
        """The last aggregation of the pass, which must be one by moments."""
        if not self.calls:
            raise ValueError(NO_MOMENTS)
        if self.uncorrected is not None:
            raise ValueError(
                f"the last convolution, {type(self.uncorrected).__name__}, is corrected by pairs of views and has no "
                f"moments, which the variance of the logits is made of; {OTHERWISE}"
            )
        return self.calls[-1][1]

    def reaches(self, value: Tensor) -> bool:
        """Whether the last layer's output went into ``value``; told by autograd, so True where it is off."""
        if self.output is None or self.output.grad_fn is None:
            return self.output is not None
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
def following(model: Module, trace: Trace) -> Iterator[None]:
    """Note the linear layers and batch norms that the last convolution reaches."""

    def passing(layer: Module, args: tuple[object, ...], output: Tensor) -> None:
        if trace.reaches(output):
            trace.after.append(layer)

    hooks, inside = [], set()
    for module in model.modules():
        # Jumping knowledge may weigh the layers by linear maps of its own; they are not on the way to the logits.
        if isinstance(module, MessagePassing | JumpingKnowledge):
            inside.update(module.modules())
    for module in model.modules():
        # A batch norm, at inference, scales deviations by fixed factors, if it keeps running ones.
        fixed = isinstance(module, LINEAR) and vars(module).get("track_running_stats", True)
        if fixed and module not in inside:
            hooks.append(module.register_forward_hook(passing))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def head_matrix(model: Module, trace: Trace, classes: int, path: str | None) -> Tensor | None:
    """The linear map [C, F] from the last convolution to the logits; None where its output is the logits.

    Given the ``path`` of a head, its linear part; else the linear layers and batch norms that the last convolution
    reaches, if they form a chain that ends at the logits (activations between them are dropped, the paper's linear
    assumption).
    """
    assert trace.output is not None
    width, matrix = trace.output.shape[-1], None
    joined = model if path is None else None
    for layer in reversed(trace.after) if path is None else [model.get_submodule(path)]:
        if matrix is not None:
            matrix = _narrowed(matrix, _outputs(layer), joined)
        matrix = linear_part(matrix, layer)
    if matrix is None:
        if path is not None:
            raise ValueError(f"head must be or contain linear layers, got {type(model.get_submodule(path)).__name__}")
        if width != classes:
            raise ValueError(_ambiguous(f"no linear layer, but {width} features and {classes} logits"))
        return None
    if matrix.shape[0] != classes:
        raise ValueError(_ambiguous(f"linear layers that give {matrix.shape[0]} values for {classes} logits"))
    return _narrowed(matrix, width, joined)


def _outputs(layer: Module) -> int:
    """Number of features that a linear layer or batch norm gives: its bias may be missing, its weight not."""
    return layer.num_features if isinstance(layer, torch.nn.BatchNorm1d) else len(cast(Tensor, layer.weight))


def _narrowed(matrix: Tensor, width: int, model: Module | None) -> Tensor:
    """The columns of ``matrix`` that take ``width`` features, where the ``model`` joins its layers, the last one last.

    None: a model that was told its head, which may join them in any way.
    """
    if matrix.shape[1] == width:
        return matrix
    joins = model is None or any(isinstance(m, JumpingKnowledge) and m.mode == "cat" for m in model.modules())
    if joins and matrix.shape[1] > width:
        return matrix[:, -width:]
    raise ValueError(_ambiguous(f"linear layers that take {matrix.shape[1]} features where they get {width}"))


def _ambiguous(found: str) -> str:
    return (
        f"cannot tell the linear head: after the last convolution the model calls {found}; say which layer maps the "
        "last convolution's (pooled) output to the logits, readout=rade.Readout(head=model.lin), or keep the "
        "rates constant, rule=rade.Constant()"
    )


def path_of(model: Module, head: Module | str | None) -> str | None:
    """Where the head is in the model: a path survives copies, a reference would not."""
    if head is None:
        return None
    if isinstance(head, str):
        model.get_submodule(head)
        return head
    paths: dict[Module, str] = {module: path for path, module in model.named_modules()}
    if head not in paths:
        raise ValueError(f"head must be a layer of the model itself, but this {type(head).__name__} is not part of it")
    return paths[head]


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every part has its own mode again, frozen layers too.

    Not by `eval`, of which layers may make more: adapters (LoRA) merge weights there, and take them apart in `train`.
    """
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def logits_in(output: object) -> Tensor | None:
    """The logits among what a forward pass returned: a tensor, or the first one of a tuple or list."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    return first if isinstance(first, Tensor) else None


def logits_of(output: object) -> Tensor:
    """The same; refuses what has none."""
    found = logits_in(output)
    if found is None:
        raise ValueError(
            f"expected logits, or a tuple whose first entry they are, from the model, got {type(output).__name__}; to "
            "adapt rates, return them so, or keep the rates, rule=rade.Constant()"
        )
    return found
