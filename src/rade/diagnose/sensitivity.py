"""How much a node's representation depends on another node: ‖∂h_i/∂x_j‖ (over-squashing, Topping et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from rade.graph.adjacency import Adjacency
from rade.nn.linear import dense
from rade.train.backbones import Backbone

PROBES = 8  # random directions per anchor; exact where the representation is no wider


@dataclass
class Passed:
    """What one pass saw: features as they entered the first convolution, and representations as they left the last."""

    inputs: Tensor = field(default_factory=lambda: torch.empty(0))
    hidden: Tensor = field(default_factory=lambda: torch.empty(0))
    last: Tensor = field(default_factory=lambda: torch.empty(0))  # what entered the last convolution


@contextmanager
def watching(net: Backbone) -> Iterator[Passed]:
    """Note inputs and representations of the passes inside; the inputs begin the graph of derivatives."""
    seen = Passed()

    def entered(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        seen.inputs = dense(output).detach().requires_grad_()
        return seen.inputs

    def last(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen.last = args[0].detach()

    def left(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen.hidden = args[0]

    hooks = [
        net.before.register_forward_hook(entered),
        net.convolutions[-1].register_forward_pre_hook(last),
        net.pool.register_forward_pre_hook(left),
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def jacobian_norms(
    net: Backbone, x: Tensor, adjacency: Adjacency, anchors: Tensor, generator: torch.Generator
) -> Tensor:
    """‖∂h_i/∂h⁰_j‖_F for anchors i and all nodes j, [a, n]: h before pooling, h⁰ what enters the first convolution.

    By PROBES orthonormal directions v: ‖vᵀJ‖² adds up to ‖J‖² over a basis, and over some of it in the mean, scaled.
    """
    with watching(net) as seen, torch.enable_grad():
        net(x, adjacency, batch=adjacency.graph.batch)
    width = seen.hidden.size(1)
    probes = min(PROBES, width)
    found = []
    for anchor in anchors.tolist():
        square = torch.zeros(len(seen.inputs), dtype=seen.inputs.dtype)
        for direction in _directions(width, probes, generator).to(square.dtype):
            (gradient,) = torch.autograd.grad(seen.hidden[anchor] @ direction, seen.inputs, retain_graph=True)
            square += gradient.square().sum(1)
        found.append((square * (width / probes)).sqrt())
    return torch.stack(found)


def _directions(width: int, count: int, generator: torch.Generator) -> Tensor:
    """Orthonormal rows, [count, width], uniformly distributed."""
    draws = torch.randn(width, count, dtype=torch.double, generator=generator)
    basis: Tensor = torch.linalg.qr(draws)[0]
    return basis.t()


def by_distance(norms: Tensor, distance: Tensor, inside: Tensor) -> dict[int, tuple[int, float]]:
    """Pairs and mean norm at each distance; −1 stands for nodes of the same graph that no path connects."""
    found = {}
    for steps in torch.unique(distance[inside]).tolist():
        at = inside & (distance == steps)
        found[steps] = (int(at.sum()), float(norms[at].mean()))
    return found


def beyond(norms: Tensor, distance: Tensor, inside: Tensor, layers: int) -> float:
    """The share of Σ_j ‖∂h_i/∂h⁰_j‖ that comes from more than ``layers`` steps away, or from where no path leads."""
    far = inside & ((distance > layers) | (distance < 0))
    return float(norms[far].sum() / norms[inside].sum().clamp(min=torch.finfo(norms.dtype).tiny))
