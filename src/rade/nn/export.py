"""RADE-OFS at inference by plain tensor operations, for programs that are traced or exported.

Sorting a graph and grouping its degrees depend on its values, which a program does not have. Here every step is one
operation on all edges or all nodes, so that a program takes any graph; of the model it keeps parameters and rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rade.moments.base import Coefficients
from rade.moments.degrees import EDGE, LOOP, NONEDGE, random_degree
from rade.moments.normalised import Normalised
from rade.nn.context import Arguments, Context, Mode
from rade.sums import Messages

# Whether a program is being made of the model: by `torch.jit.trace` a state, by `torch.export` a yes.
tracing = torch._C._get_tracing_state
exporting = getattr(torch.compiler, "is_exporting", bool)  # PyTorch before 2.7 has no such question


def mean_of_views(layer: Any, context: Context, given: Arguments, mode: Mode) -> PlainGraph:
    """The graph of a layer's call, as a program aggregates over it; refuses what no program can have."""
    if mode != "mean" or not (context.here.setting or context.setting).noiseless:
        raise RuntimeError(
            "a program can hold the plain model, or RADE-OFS in evaluation: views are drawn for each call anew, and "
            "noise is undone for one graph; call model.eval(), or trace rade.revert(model)"
        )
    x, edge_index = given["x"], given["edge_index"]
    present = context.here.current
    programs = {} if present is None else present.programs
    key = id(edge_index), layer._relation
    graph = programs.get(key)
    if graph is None or graph.num_nodes != x.shape[0]:
        known = next(iter(programs.values()), None)
        first = None if known is None else known.first or known
        name, batch = type(layer).__name__, context.batch_for(x.shape[0], layer._relation)
        ends, column, is_relation = (edge_index[0], edge_index[1]), x[:, 0].detach(), layer._relation is not None
        graph = programs[key] = PlainGraph(*ends, column, batch, context, name, is_relation, first)
    if given.get("edge_weight") is not None or given.get("edge_attr") is not None:
        raise graph.refusal
    return graph


@dataclass(frozen=True, eq=False)
class PlainGraph:
    """The mean over the views of a graph without repeated edges, in the place of a sorted graph and of its adjacency.

    Attributes:
        source, target: [E] of each edge; self-loops do not count.
        column: [n] any column of the features, for the number of nodes: a program knows no other.
        batch: [n] graph of each node; None: one graph.
        context: where the rates come from.
        layer: who asks, first.
        is_relation: whether it is the graph of one of several relations, which has rates by its own density.
        first: the first graph of the pass, whose rates hold for the others; None if this is it.
    """

    source: Tensor
    target: Tensor
    column: Tensor
    batch: Tensor | None
    context: Context
    layer: str
    is_relation: bool
    first: PlainGraph | None

    def __getattr__(self, name: str) -> Any:
        """Whoever asks for more, attention say, needs a sorted graph."""
        raise self.refusal

    @property
    def refusal(self) -> RuntimeError:
        """Additions that depend on features, edge weights or attributes are found by algorithms, not by a formula."""
        return RuntimeError(
            f"the additions that RADE-OFS expects in {self.layer} cannot be traced or exported as it is called here, "
            "only those of unweighted sums, means and symmetric normalisation; predict with this model as it is, or "
            "trace rade.revert(model), which lacks them"
        )

    @cached_property
    def cache(self) -> dict[Any, Any]:
        """What layers share."""
        return {}

    @property
    def num_nodes(self) -> Any:
        """A number, or what a program has for it."""
        return self.column.shape[0]

    @cached_property
    def _is_edge(self) -> Tensor:
        return (self.target != self.source).double()

    @cached_property
    def degree(self) -> Tensor:
        """[n] in double precision."""
        return torch.zeros_like(self.column, dtype=torch.double).index_add(0, self.target, self._is_edge)

    @cached_property
    def size(self) -> Tensor:
        """Number of nodes of each node's graph, [n] in double precision."""
        return self._everyone(torch.ones_like(self.degree)).expand_as(self.degree)

    @cached_property
    def both_ways(self) -> Tensor:
        """Whether every edge has its reverse."""
        keys = (self.target * self.num_nodes + self.source, self.source * self.num_nodes + self.target)
        first, second = (torch.sort(key).values for key in keys)
        return (first == second).all()

    @cached_property
    def rates(self) -> tuple[Tensor, Tensor]:
        """p and q as `RateState.rates_for` has them, from its buffers: a program keeps these."""
        chosen = (self.context.here.setting or self.context.setting).rates
        if chosen is not None:
            return self._number(chosen.p), self._number(chosen.q)
        kept = self.context.source
        p, rho, density, nodes = (self._number(value) for value in (kept.p, kept.rho, kept.density, kept.nodes))
        if self.is_relation:
            return p, (rho * self._density).clamp(max=1.0)
        return p, (self if self.first is None else self.first)._add_rate(rho, density, nodes)

    @cached_property
    def _density(self) -> Tensor:
        return self._is_edge.sum() / (self.size - 1.0).sum().clamp(min=1.0)

    def _add_rate(self, rho: Tensor, density: Tensor, nodes: Tensor) -> Tensor:
        """q of a pass whose first graph it is."""
        q = (rho * torch.where(density.isnan(), self._density, density)).clamp(max=1.0)
        count = torch.ones_like(self.degree).sum()
        scaled = (q * nodes / count).clamp(max=1.0)
        return torch.where(nodes.isnan() | (self.size != count).any(), q, scaled)

    def _number(self, value: float | Tensor) -> Tensor:
        return torch.as_tensor(value, dtype=torch.double, device=self.column.device)

    def aggregate(self, coefficients: Coefficients, messages: Tensor | Messages) -> Tensor:
        """Σ_j α_ij m_j, and Σ_nonedges E[α'_ij] m_j (Eq. 11): everybody, but for neighbors and the node itself."""
        if type(coefficients) is not Normalised or isinstance(messages, Messages):
            raise self.refusal
        to, by, loop = (value[:, None] for value in coefficients._of_degrees(self.degree))
        clean = to * self._neighbors(by * messages) + loop * messages
        left, right = (value[:, None].to(messages.dtype) for value in self._expected(coefficients))
        sent = right * messages
        return clean + left * (self._everyone(sent) - self._neighbors(sent) - sent)

    def _expected(self, of: Normalised) -> tuple[Tensor, Tensor]:
        """Factors of the target and of the source of a non-edge, q f_i and f_j."""
        left = self._inverse(of.loop + 1.0, NONEDGE, of.a) * self.rates[1]
        if of.b == 0.0:
            return left, torch.ones_like(left)
        undirected = self._inverse(of.loop + 1.0, NONEDGE, of.b)
        return left, torch.where(self.both_ways, undirected, self._inverse(of.loop, LOOP, of.b))

    def _inverse(self, *numbers: Any) -> Tensor:
        """As `_power` has it, once."""
        if numbers not in self.cache:
            self.cache[numbers] = self._power(*numbers)
        found: Tensor = self.cache[numbers]
        return found

    def _power(self, c: float, spent: tuple[int, int], power: float) -> Tensor:
        """E[X^−s] for X = c + Bin(degree, 1−p) + Bin(others, q), of every node; over X > 0 where c = 0."""
        if power == 0.0:
            return torch.ones_like(self.degree)
        p, q = self.rates
        a = (self.degree - spent[0]).clamp(min=0.0)
        b = (self.size - 1.0 - self.degree - spent[1]).clamp(min=0.0)
        if c == 0.0:
            stays, joins = (self._inverse(1.0, one, power + 1.0) for one in (EDGE, NONEDGE))
            return a * (1.0 - p) * stays + b * q * joins
        how = self.context.setting.correction.moments
        return random_degree(torch.full_like(a[None], c), a[None], b[None], how, p, q, (power,))[0][0]

    def _neighbors(self, x: Tensor) -> Tensor:
        sent = x.index_select(0, self.source) * self._is_edge[:, None].to(x.dtype)
        return torch.zeros_like(x).index_add(0, self.target, sent)

    def _everyone(self, x: Tensor) -> Tensor:
        """The sum over each node's graph; there are no more graphs than nodes."""
        if self.batch is None:
            return x.sum(0, keepdim=True)
        return torch.zeros_like(x).index_add(0, self.batch, x).index_select(0, self.batch)
