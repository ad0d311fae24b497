"""What RADE sees of a model before any training: layers, graph, head, task, and whether rates can adapt."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module

from rade.distribution import Rates
from rade.nn.base import convolutions
from rade.nn.context import Pass
from rade.nn.trace import Again, Trace, logits_in
from rade.rates.readout import Labelled
from rade.rates.regulariser import regulariser
from rade.rates.rules import GradNorm
from rade.wrapper.conversion import convert
from rade.wrapper.module import RADE
from rade.wrapper.warn import few_labels

SAME = 1e-3  # of the largest output: rounding is a hundredth of it
KEPT = "they stay as they are; with rade.GradNorm(): "  # where no rule was given


@dataclass(frozen=True)
class Finding:
    """One line of a check: what was looked at, what was found, whether it is in order, and whether to think it over."""

    what: str
    found: str
    fine: bool = True
    doubtful: bool = False

    @property
    def mark(self) -> str:
        """``ok``, ``??`` for what works and should be known, ``!!`` for what does not."""
        return "!!" if not self.fine else "??" if self.doubtful else "ok"


@dataclass(frozen=True)
class Check:
    """What RADE sees of a model; ``str`` is a table.

    Attributes:
        lines: everything that was looked at, in order.
        works: whether the model can be trained with RADE at all.
        adapts: whether rates can adapt, by `rade.GradNorm` unless another rule was given; constant ones work anyway.
    """

    lines: tuple[Finding, ...]
    works: bool
    adapts: bool

    def __str__(self) -> str:
        width = max(len(line.what) for line in self.lines)
        return "\n".join(f"{line.mark}  {line.what:<{width}}  {line.found}" for line in self.lines)


def check(
    net: Module,
    *args: object,
    options: dict[str, Any] | None = None,
    labelled: Labelled | Tensor | None = None,
    **kwargs: object,
) -> Check:
    """Look at a model and the arguments of one call, on a copy; nothing is trained, and nothing is raised.

    Args:
        net: the model, not yet wrapped.
        args, kwargs: what its forward takes.
        options: arguments for `rade.RADE`, such as ``{"readout": rade.Readout(pool="sum")}``.
        labelled: rows that the loss will be taken over (int64 ids, a bool mask, a `rade.Labelled`), to be told if few.

    >>> from torch_geometric.nn import GCN
    >>> print(check(GCN(4, 8, 2, 3), torch.ones(3, 4), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).works)
    True
    """
    options = options or {}
    with torch.random.fork_rng(devices=[]):  # the model's own randomness stays where it is
        layers: list[Finding] = []
        lines: list[Finding] = []
        try:
            layers = _layers(convert(copy.deepcopy(net)))
            model = RADE(copy.deepcopy(net), **options)
            lines += _same(net, model, args, kwargs)
            lines += _training(model, args, kwargs)
            layers = _layers(model.wrapped, model._context.reached)
            rows = Labelled.of(labelled).rows
            graph = model._context.reached.graph if model._context.reached is not None else None
            lines += [] if rows is None or graph is None else [_labels(model, graph.num_nodes, rows)]
        except (ValueError, TypeError, RuntimeError) as refusal:
            return Check((*layers, *lines, Finding("call", _first(refusal), False)), False, False)
        lines = [*layers, *lines]
        works = all(line.fine for line in lines)
        found = _adaptation(RADE(copy.deepcopy(net), **{"rule": GradNorm(), **options}), args, kwargs)
        adapts = works and all(line.fine for line in found)
        if "rule" not in options:
            # Constant rates work anyway; but who asks for others should know what is missing.
            found[-1] = replace(found[-1], found=KEPT + found[-1].found, fine=True, doubtful=not adapts)
        return Check((*lines, *found), works, adapts)


def _layers(converted: Module, present: Pass | None = None) -> list[Finding]:
    """How each convolution is corrected: as it was built, or was called in a pass."""
    lines, by_pairs = [], {} if present is None else present.by_pairs
    for path, conv in convolutions(converted).items():
        reason = by_pairs.get(cast(Module, conv)) or conv.against_moments()
        how = f"by pairs of views ({reason})" if reason else "by moments"
        told = f"; only its sum keeps the expectation ({conv.nonlinear} is not linear in it)" if conv.nonlinear else ""
        name = f"layer {path or '(top)'}"
        lines.append(Finding(name, f"{type(conv).__name__}: {how}{told}", doubtful=bool(conv.nonlinear)))
    return lines


def _same(net: Module, model: RADE, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Finding]:
    """Whether the converted model computes on the clean graph what it did before: a twin of one's own may not."""
    outputs = []
    trace = Trace()  # sums by RADE, not by PyG
    with torch.no_grad():
        for run in (copy.deepcopy(net).eval(), model.wrapped.eval()):
            torch.manual_seed(0)  # for whatever else is random in it
            with model._context.using(trace, mode="clean"):
                outputs.append(Again(run, *args, **kwargs)())
    plain, found = (logits_in(output) for output in outputs)
    if plain is None or found is None:
        return []
    plain, found = plain.float(), found.float()
    scale = 1.0 + (float(plain.nan_to_num().abs().max()) if plain.numel() else 0.0)
    if plain.shape == found.shape and torch.allclose(found, plain, rtol=0.0, atol=SAME * scale, equal_nan=True):
        return []
    gap = f"by up to {float((plain - found).abs().max()):.2g}" if plain.shape == found.shape else "in its shape"
    told = f"the output is off {gap}: some layer on views does not compute what the one it replaces does"
    return [Finding("clean graph", told, False)]


def _training(model: RADE, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Finding]:
    """One training call: the graph that it met, and what it would have warned of."""
    with warnings.catch_warnings(record=True) as said, torch.no_grad():
        warnings.simplefilter("always")
        Again(model.train(), *args, **kwargs)()
    present = model._context.reached
    lines = [Finding("warning", str(one.message), False) for one in said]
    if present is None or present.graph is None:
        return lines
    graph = present.graph
    rates = model._context.distribution(graph, training=True).rates
    kind = "directed" if graph.directed else "undirected"
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} {kind} edges, density {graph.density:.2g}"
    batch = "none came" if present.batch is None else "vector"
    added = float(rates.q) * graph.num_nonedges
    return [
        Finding("graph", size),
        Finding("batch", f"{batch}, {graph.num_graphs} graph(s)"),
        Finding("first views", f"p = {rates.p:.2g}, q = {rates.q:.2g}: about {added:,.0f} edges added"),
        *lines,
    ]


def _labels(model: RADE, nodes: int, labelled: Tensor) -> Finding:
    """How many rows have labels: few of them are a reason to stop early, not to do without."""
    count, rows = (int(labelled.sum()), len(labelled)) if labelled.dtype == torch.bool else (len(labelled), nodes)
    doubt = few_labels(count, rows, float(model.rates.q))
    return Finding("labels", doubt or f"{count:,} of {rows:,} rows", doubtful=bool(doubt))


def _adaptation(model: RADE, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Finding]:
    """Whether the rule finds all that it asks for."""
    rule, readout = model.rade.rule, model.rade.readout
    with model._repeating(args, kwargs) as call:
        with torch.no_grad(), call.context.using(mode="clean"):
            output = call.run()
        logits = logits_in(output)
        if logits is None:
            return [Finding("output", f"{type(output).__name__}: no logits found", not rule.adapts)]
        task = "a softmax, if the loss agrees at the first step" if readout.task == "auto" else readout.task
        lines = [Finding("output", f"{list(logits.shape)}, task: {task}, pool: {readout.pool or 'none'}")]
        if not rule.adapts:
            return [*lines, Finding("rates", f"{type(rule).__name__}: they stay as they are")]
        try:
            clean = call.clean()
            readout.scores(logits, clean.graph)
            if "regulariser" in rule.reads:  # not everything can be differentiated twice
                p, q = (torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in model.rates.numbers)
                learning = [parameter for parameter in model.wrapped.parameters() if parameter.requires_grad]
                distribution = call.context.distribution(clean.graph, training=True)
                regulariser(clean, readout, Labelled(), distribution, learning).norm(Rates(p, q))
        except (ValueError, RuntimeError) as refusal:
            return [*lines, Finding("rates", _first(refusal), False)]
    cost = "one clean pass" + (", one backward and one double-backward pass" if "regulariser" in rule.reads else "")
    return [*lines, Finding("rates", f"{type(rule).__name__} adapts them; a step costs {cost} more")]


def _first(error: Exception) -> str:
    return " ".join(str(error).split())
