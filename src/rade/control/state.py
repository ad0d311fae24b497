"""The state of a rate rule as buffers: saved, moved and copied with the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from rade.control.evidence import Evidence
from rade.control.rules import Rule, State
from rade.distributed import average
from rade.graph.graph import Graph
from rade.view.rates import Rates


class RateState(Module):
    """What a rule keeps, and the density D that turns ρ into q = ρD; all of them buffers in double precision."""

    p: Tensor
    rho: Tensor
    density: Tensor
    nodes: Tensor  # mean number of nodes of training graphs, nan before any and for batches of graphs
    calls: Tensor  # how many that is the mean of; infinite once a batch of graphs was seen
    given: float | None = None  # the density, by whoever built it

    def __init__(self, rule: Rule, density: float | None) -> None:
        super().__init__()
        if density is not None and not 0.0 <= density <= 1.0:
            raise ValueError(f"density must lie in [0, 1], got {density}; it is edges over pairs of nodes")
        self.rule = rule
        first = rule.init()
        missing = {"p", "rho"} - set(first)
        if missing:
            raise ValueError(f"{type(rule).__name__}.init must return p and rho, but {min(missing)} is missing")
        self.names, self.given = tuple(first), density
        for name, value in first.items():
            self.register_buffer(name, value)
        self.register_buffer("density", torch.tensor(math.nan if density is None else density, dtype=torch.double))
        self.register_buffer("nodes", torch.tensor(math.nan, dtype=torch.double))
        self.register_buffer("calls", torch.zeros((), dtype=torch.double))

    def reset(self) -> None:
        """The first rates, and no graph seen yet; buffers stay where they are."""
        density = math.nan if self.given is None else self.given
        first = {**self.rule.init(), "density": density, "nodes": math.nan, "calls": 0.0}
        for name, value in first.items():
            self.get_buffer(name).copy_(torch.as_tensor(value, dtype=torch.double))

    @property
    def state(self) -> State:
        """The rule's tensors by name."""
        return {name: self.get_buffer(name) for name in self.names}

    @property
    def rates(self) -> Rates:
        """Current (p, q = ρD); q is 0 until the density is known."""
        return self.rates_at(0.0)

    def extra_repr(self) -> str:
        """What ``print(model)`` tells: a q of 0 may only mean that no graph was seen yet."""
        density = float(self.density)
        known = "unknown until the first graph" if math.isnan(density) else f"{density:.4g}"
        return f"p={float(self.p):.4g}, rho={float(self.rho):.4g}, density={known}"

    def rates_at(self, density: float) -> Rates:
        """Current (p, q = ρD), with the given density as long as none is known."""
        density = density if math.isnan(float(self.density)) else float(self.density)
        return Rates(float(self.p), min(max(float(self.rho) * density, 0.0), 1.0))

    def see(self, graph: Graph) -> None:
        """Take the pooled density of the first training graph, over all ranks, unless one was given."""
        if math.isnan(float(self.density)):
            edges, pairs = average(torch.tensor([graph.num_edges, graph.num_pairs]).to(self.density))
            self.density.copy_(edges / pairs.clamp(min=1.0))

    def count(self, graph: Graph) -> None:
        """Remember how large the graphs of training are; batches vary in themselves: after one nothing is counted."""
        if graph.num_graphs > 1:
            self.calls.fill_(math.inf)
            self.nodes.fill_(math.nan)
        elif math.isfinite(float(self.calls)):
            self.calls.add_(1.0)
            self.nodes.copy_(torch.nan_to_num(self.nodes, nan=float(graph.num_nodes)))
            self.nodes.add_((graph.num_nodes - self.nodes) / self.calls)

    def rates_for(self, graph: Graph) -> Rates:
        """Rates for inference that keeps additions: a node of a larger graph than in training gets as many as there.

        q · (training nodes / nodes) on a single graph, if training saw no batches. Graphs of a batch keep q, and so do
        all graphs after training on batches: no prediction depends on which others stand in its batch.
        """
        rates = self.rates_at(graph.density)
        if graph.num_graphs > 1 or math.isnan(float(self.nodes)) or float(self.nodes) == graph.num_nodes:
            return rates
        return Rates(rates.p, min(float(rates.q) * float(self.nodes) / max(graph.num_nodes, 1), 1.0))

    def step(self, seen: Evidence) -> None:
        """One step of the rule; buffers are written in place, so that references to them stay live."""
        after = self.rule.step(self.state, self.density, seen)
        if not isinstance(after, Mapping):
            raise ValueError(
                f"{type(self.rule).__name__}.step must return a dict of the next {', '.join(self.names)}; got {after!r}"
            )
        if set(after) != set(self.names):
            raise ValueError(
                f"{type(self.rule).__name__}.step must return the names of init, {', '.join(self.names)}; "
                f"got {', '.join(after)}"
            )
        Rates(float(after["p"]), 0.0)  # refuses what is none
        if not 0.0 <= float(after["rho"]) < math.inf:
            raise ValueError(
                f"{type(self.rule).__name__}.step must return a finite rho of at least 0, got {float(after['rho'])}"
            )
        for name, value in after.items():
            self.get_buffer(name).copy_(torch.as_tensor(value).detach())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """States of before that counted no nodes are loaded as such."""
        state_dict.setdefault(f"{prefix}nodes", torch.tensor(math.nan, dtype=torch.double))
        state_dict.setdefault(f"{prefix}calls", torch.zeros((), dtype=torch.double))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RateState:
        """Follow the model to its device but keep double precision: in bfloat16 a step of 1e-3 would be lost."""
        super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-untyped-call]
        return self
