"""What RADE sees of a model before any training: layers, arguments, head, task, and whether rates can adapt."""

from __future__ import annotations

import copy
import warnings
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data

from rade.control.labelled import Labelled
from rade.control.rules import GradNorm
from rade.nn.base import convolutions
from rade.nn.modes import evaluating
from rade.nn.output import has_logits, logits_of
from rade.nn.trace import tracing
from rade.view.law import Correction
from rade.wrapper.clean import clean_pass
from rade.wrapper.conversion import TWINS, reason_against, refused_option
from rade.wrapper.doubts import blocks, few_labels, looks_like_a_batch
from rade.wrapper.explain import estimated_layers
from rade.wrapper.module import RADE
from rade.wrapper.running import Running

SAME = 1e-3  # of the largest output: rounding is a hundredth of it
KEPT = "they stay as they are; with rade.GradNorm(): "  # where no rule was given


@dataclass(frozen=True)
class Seen:
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

    lines: tuple[Seen, ...]
    works: bool
    adapts: bool

    def __str__(self) -> str:
        width = max(len(line.what) for line in self.lines)
        return "\n".join(f"{line.mark}  {line.what:<{width}}  {line.found}" for line in self.lines)

    def asdict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def check(
    net: Module,
    *args: Any,
    strict: bool = True,
    options: dict[str, Any] | None = None,
    labelled: Labelled | Tensor | None = None,
    **kwargs: Any,
) -> Check:
    """Look at a model and the arguments of one call, on a copy; nothing is trained, and nothing is raised.

    Args:
        net: the model, not yet wrapped.
        args, kwargs: what its forward takes.
        strict: as for `rade.RADE`.
        options: other arguments for `rade.RADE`, such as ``{"readout": rade.Readout(pool="sum")}``.
        labelled: rows that the loss will be taken over (int64 ids, a bool mask, a `rade.Labelled`), to be told if few.

    >>> net = pyg.GCN(4, 8, 2, 3)
    >>> print(check(net, torch.ones(3, 4), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).works)
    True
    """
    lines = _layers(net, strict)
    if any(not line.fine for line in lines):
        return Check(tuple(lines), False, False)
    with torch.random.fork_rng(devices=[]):  # the model's own randomness stays where it is
        return _tried(net, args, kwargs, lines, {"strict": strict, **(options or {})}, labelled)


def _tried(
    net: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    lines: list[Seen],
    options: dict[str, Any],
    labelled: Labelled | Tensor | None,
) -> Check:
    try:
        model = RADE(copy.deepcopy(net), **options)
        lines += _bent(model)
        lines += _arguments(model, args, kwargs)
        lines += _same(net, model, args, kwargs)
        lines += _training(model, args, kwargs)
        rows = Labelled.of(labelled).rows
        lines += [] if rows is None else [_labels(model, model.graph_of(*args, **kwargs)[1].num_nodes, rows)]
    except (ValueError, TypeError, RuntimeError) as refusal:
        return Check((*lines, Seen("call", _first(refusal), False)), False, False)
    works = all(line.fine for line in lines)
    if "rule" in options:
        found = _adaptation(model, args, kwargs)
        return Check((*lines, *found), works, works and all(line.fine for line in found))
    found = _adaptation(RADE(copy.deepcopy(net), rule=GradNorm(), **options), args, kwargs)
    told = [replace(line, found=KEPT + line.found, fine=True) if line.what == "rates" else line for line in found]
    return Check((*lines, *told), works, works and all(line.fine for line in found))


def _layers(net: Module, strict: bool) -> list[Seen]:
    lines = []
    for path, module in net.named_modules():
        if not isinstance(module, pyg.MessagePassing):
            continue
        what, name = f"layer {path or '(top)'}", type(module).__name__
        option = refused_option(module) if type(module) in TWINS else None
        if option is None and (type(module) in TWINS or path in convolutions(net)):
            lines.append(Seen(what, f"{name}: on random views"))
        else:
            rest = "" if strict else "; strict=False leaves it on the clean graph"
            lines.append(Seen(what, f"{name}: {option or reason_against(module)}{rest}", not strict))
    return lines or [Seen("layers", f"{type(net).__name__} has no graph convolution", False)]


def _bent(model: RADE) -> list[Seen]:
    """Layers that are not linear in what they sum."""
    found = {f"layer {path or '(top)'}": conv.bends for path, conv in convolutions(model.wrapped).items()}
    told = "the sum keeps its expectation, what {} makes of it does not"
    return [Seen(what, told.format(option), doubtful=True) for what, option in found.items() if option]


def _arguments(model: RADE, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Seen]:
    call = model._call(args, kwargs)
    graph = model._graph(call)
    held = call.arguments[call.holder]
    where = f"{call.holder}.edge_index" if isinstance(held, Data) else call.holder
    batch = "vector" if call.batch is not None else "pointer" if call.ptr is not None else "none came"
    alike = batch == "none came" and looks_like_a_batch(graph)
    doubt = f"; but {blocks(graph).numel()} blocks without an edge between them look like a batch" if alike else ""
    x = "none" if call.x is None else f"{list(call.x.shape)}"
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
    return [
        Seen("graph", f"argument {where}: {size}, density {graph.density:.2g}"),
        Seen("batch", f"{batch}, {graph.num_graphs} graph(s){doubt}", not alike),
        Seen("features", f"{x}, finite"),
    ]


def _same(net: Module, model: RADE, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Seen]:
    """Whether the converted model computes on the clean graph what it did before; given self-loops it need not."""
    call = model._call(args, kwargs)
    graph = model._graph(call)
    if graph.self_loops:
        return []
    with torch.no_grad():
        outputs = []
        for run in (partial(copy.deepcopy(net).eval(), *args, **kwargs), Running(model.wrapped.eval(), call).on(graph)):
            torch.manual_seed(0)  # for whatever else is random in it
            outputs.append(run())
    if not all(has_logits(output) for output in outputs):
        return []
    plain, found = (logits_of(output).float() for output in outputs)
    scale = 1.0 + (float(plain.nan_to_num().abs().max()) if plain.numel() else 0.0)
    if plain.shape == found.shape and torch.allclose(found, plain, rtol=0.0, atol=SAME * scale, equal_nan=True):
        return []
    gap = f"by up to {float((plain - found).abs().max()):.2g}" if plain.shape == found.shape else "in its shape"
    told = f"the output is off {gap}: some layer on views does not compute what the one it replaces does"
    return [Seen("clean graph", told, False)]


def _training(model: RADE, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Seen]:
    """One training call, and what it would have warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with torch.no_grad():
            model.train()(*args, **kwargs)
    doubts = [str(one.message) for one in said if "looks like a batch" not in str(one.message)]
    added = model.rates.q * model._graph(model._call(args, kwargs)).num_nonedges
    first = Seen("first views", f"p = {model.rates.p:.2g}, q = {model.rates.q:.2g}: about {added:,.0f} edges added")
    return [first, *(Seen("warning", text, False) for text in doubts), *_correction(model, args, kwargs)]


def _correction(model: RADE, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Seen]:
    """Layers whose expectation is preserved only nearly although nobody asked for that."""
    if replace(model.correction, cap="auto") != Correction():
        return []
    call = model._call(args, kwargs)
    graph = model._graph(call)
    with torch.no_grad(), evaluating(model.wrapped), tracing(model.wrapped) as trace:
        Running(model.wrapped, call)(graph)
        rough = estimated_layers(trace, model.law(graph))
    if not rough:
        return []
    told = f"estimated in {', '.join(rough)}, whose scores of pairs are too many: close where attention is spread, "
    told += "off by tens of percent where few nodes outweigh all others; GATConv is exact"
    return [Seen("correction", told, doubtful=True)]


def _labels(model: RADE, nodes: int, labelled: Tensor) -> Seen:
    """How many rows have labels: few of them are a reason to stop early, not to do without."""
    count, rows = (int(labelled.sum()), len(labelled)) if labelled.dtype == torch.bool else (len(labelled), nodes)
    doubt = few_labels(count, rows, float(model.rates.q))
    return Seen("labels", doubt or f"{count:,} of {rows:,} rows", doubtful=bool(doubt))


def _adaptation(model: RADE, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Seen]:
    """Whether the rule finds all that it asks for."""
    rule, readout = model.rule, model.readout
    call = model._call(args, kwargs)
    graph = model._graph(call)
    with torch.no_grad():
        output = model.wrapped.eval()(*call.with_graph(graph)[0], **call.with_graph(graph)[1])
    if not has_logits(output):
        return [Seen("output", f"{type(output).__name__}: no logits to be told", not rule.adapts)]
    task: str = readout.task if isinstance(readout.task, str) else "a curvature of your own"
    task = "a softmax, if the loss agrees at the first step" if task == "auto" else task
    shares = _are_probabilities(logits_of(output))
    doubt = "; rows are probabilities, which sum to one: losses here take logits, before a softmax" if shares else ""
    told = f"{list(logits_of(output).shape)}, task: {task}, pool: {readout.pool or 'none'}{doubt}"
    lines = [Seen("output", told, doubtful=shares)]
    if not rule.adapts:
        return [*lines, Seen("rates", f"{type(rule).__name__}: they stay as they are")]
    try:
        readout.scores(logits_of(output), graph)
        if "regulariser" in rule.reads:
            clean_pass(Running(model.wrapped, call), graph, readout)
    except ValueError as refusal:
        return [*lines, Seen("rates", _first(refusal), False)]
    cost = "one clean pass" + (", one backward and one double-backward pass" if "regulariser" in rule.reads else "")
    return [*lines, Seen("rates", f"{type(rule).__name__} adapts them; a step costs {cost} more")]


def _are_probabilities(output: Tensor) -> bool:
    """Whether they look like those of a softmax, which nothing else does by chance."""
    rows = output.float()
    if rows.dim() != 2 or rows.shape[1] < 2 or len(rows) < 2:
        return False
    return bool((rows >= 0).all() and torch.allclose(rows.sum(1), torch.ones_like(rows[:, 0]), atol=1e-3))


def _first(error: Exception) -> str:
    return " ".join(str(error).split())
