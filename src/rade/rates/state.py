"""The state of a rate rule as buffers: saved, moved and copied with the model."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from rade.distribution import Rates
from rade.graph.graph import Graph
from rade.rates.rules import Rule, State, double
from rade.runtime import average


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
        self.rule, self.given, self.names = rule, density, tuple(rule.init())
        missing = {"p", "rho"} - set(self.names)
        if missing:
            raise ValueError(f"{type(rule).__name__}.init must return p and rho, but {min(missing)} is missing")
        for name, value in self._first().items():
            self.register_buffer(name, value)
        self._known: tuple[tuple[Tensor, ...], tuple[int, ...], tuple[float, float, float]] | None = None
        self._latest: Rates | None = None

    def reset(self) -> None:
        """The first rates, and no graph seen yet; buffers stay where they are."""
        for name, value in self._first().items():
            self.get_buffer(name).copy_(value)

    def _first(self) -> State:
        density = math.nan if self.given is None else self.given
        return {**self.rule.init(), "density": double(density), "nodes": double(math.nan), "calls": double(0.0)}

    @property
    def rates(self) -> Rates:
        """Current (p, q = ρD); q is 0 until the density is known."""
        return self.rates_at(0.0)

    def extra_repr(self) -> str:
        """What ``print(model)`` tells: a q of 0 may only mean that no graph was seen yet."""
        p, rho, density = self._read()
        known = "unknown until the first graph" if math.isnan(density) else f"{density:.4g}"
        return f"p={p:.4g}, rho={rho:.4g}, density={known}"

    @property
    def rho_now(self) -> float:
        """ρ as a number."""
        return self._read()[1]

    def rates_at(self, density: float) -> Rates:
        """Current (p, q = ρD), with the given density as long as none is known."""
        p, rho, known = self._read()
        q = min(max(rho * (density if math.isnan(known) else known), 0.0), 1.0)
        if self._latest is None or (self._latest.p, self._latest.q) != (p, q):
            self._latest = Rates(p, q)
        return self._latest

    def rates_for(self, graph: Graph) -> Rates:
        """Rates for a pass of inference that keeps additions, by its first graph.

        A node of a larger graph than in training gets as many additions as there:
        q · (training nodes / nodes) on a single graph, if training saw no batches. Graphs of a batch keep q, and so do
        all graphs after training on batches: no prediction depends on which others are in its batch.
        """
        rates, nodes = self.rates_at(graph.density), float(self.nodes)
        if graph.num_graphs > 1 or math.isnan(nodes) or nodes == graph.num_nodes:
            return rates
        return Rates(rates.p, min(float(rates.q) * nodes / max(graph.num_nodes, 1), 1.0))

    def see(self, graph: Graph) -> None:
        """Take the pooled density of the first training graph, over all ranks, unless one was given."""
        if math.isnan(self._read()[2]):
            edges, pairs = average(torch.tensor([graph.num_edges, graph.num_pairs]).to(self.density))
            self.density.copy_(edges / pairs.clamp(min=1.0))

    def count(self, graph: Graph) -> None:
        """Remember how large the graphs of training are; batches vary in themselves: after one nothing is counted."""
        if graph.num_graphs > 1:
            self.calls.fill_(math.inf)
        self.calls.add_(1.0)
        mean = torch.nan_to_num(self.nodes, nan=float(graph.num_nodes))
        mean = mean + (graph.num_nodes - mean) / self.calls
        self.nodes.copy_(torch.where(self.calls.isinf(), math.nan, mean))  # by tensors: nothing waits for a GPU

    def _read(self) -> tuple[float, float, float]:
        """p, ρ and D as numbers; in training converted once for each change of them, since that makes a GPU wait.

        Not so in evaluation: averages of a model are often written by ``.data.copy_``, which counts no change.
        """
        p, rho, density = self.p, self.rho, self.density
        if not self.training:  # nor do tensors of inference mode count any
            return _numbers(p, rho, density)
        versions, known = (p._version, rho._version, density._version), self._known
        same = known is not None and known[0][0] is p and known[0][1] is rho and known[0][2] is density
        if known is None or not same or known[1] != versions:
            known = self._known = (p, rho, density), versions, _numbers(p, rho, density)
        return known[2]

    def __getstate__(self) -> dict[str, object]:
        """Without the numbers: a copy's tensors count their changes anew, and may match by chance."""
        return self.__dict__ | {"_known": None, "_latest": None}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RateState:
        """Follow the model to its device but keep double precision: in bfloat16 a step of 1e-3 would be lost."""
        super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-untyped-call]
        return self


def _numbers(p: Tensor, rho: Tensor, density: Tensor) -> tuple[float, float, float]:
    found: list[float] = torch.stack([p, rho, density]).tolist()
    return found[0], found[1], found[2]
