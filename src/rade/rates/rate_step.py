"""One rate step: clean pass → what the last layer sends → variance → R and its gradient norm → rule → new rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

from rade.distribution import Rates
from rade.graph.graph import Graph
from rade.nn.context import BatchVectors, Context, Mode, Pass
from rade.nn.trace import OTHERWISE, Trace, following, head_matrix, logits_of
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass, NoGradient, clean_gradient_norm, gradient_norm, regulariser
from rade.rates.rules import Logits, Seen
from rade.rates.state import RateState
from rade.rates.variance import LogitMessages


def rate_step(state: RateState, call: Repeated, labelled: Labelled, last: Pass | None = None) -> Tensor:
    """Move the rates by what the rule reads of the training step that has just been; returns the clean logits.

    Args:
        state: the rates and whatever else the rule keeps; changed in place.
        call: of the model, whose parameters have the gradients that the training step left. Nothing is computed but
            what the rule reads.
        labelled: the rows that the loss was taken over.
        last: the pass of the last training call, if there was one.
    """
    rule, readout, context = state.rule, call.readout, call.context
    reads = rule.reads if rule.adapts else ()
    learning = [parameter for parameter in call.model.parameters() if parameter.requires_grad]
    on_clean = "data_norm" in reads and rule.data_gradient == "clean"
    balance = norm = logits = None
    if "regulariser" in reads or on_clean:
        clean = call.clean(labelled)
        plain, nodes = clean.logits.detach(), clean.nodes
        if "regulariser" in reads:
            distribution = None if last is None else last.distributions.get(clean.graph)
            if distribution is None:
                state.see(clean.graph)
                distribution = context.distribution(clean.graph, training=True)
            balance = regulariser(clean, readout, labelled, distribution, learning, context.generator)
        if on_clean:
            norm = clean_gradient_norm(clean.logits, labelled, learning)
    else:
        plain, nodes = call.prediction()
    if "data_norm" in reads and not on_clean:
        norm = gradient_norm(learning)
    if "logits" in reads:
        mean = call.prediction(mode="mean")[0] if context.setting.variant.keeps_additions else plain
        logits = _with_and_without_noise(last, mean, call.graph(), nodes, readout, labelled)
    if rule.adapts:
        move(state, Seen(balance, norm, logits))
    return plain


class LastCall:
    """The last training call of a model: how to repeat it, and the rows that its loss reached."""

    def __init__(
        self, given: partial[object], run: partial[object], present: Pass, output: object, context: Context
    ) -> None:
        self.given, self.run, self.present, self.context = given, run, present, context
        logits = output[0] if isinstance(output, tuple | list) and output else output
        present.logits = logits.detach() if isinstance(logits, Tensor) else None
        self.gradient: Tensor | None = None
        self.reached: Tensor | None = None  # rows that received a gradient, over all backward passes
        self.before: Callable[[], LastCall | None] = lambda: None  # the call before it, while its output lives
        for part in tree_leaves(output):
            if isinstance(part, Tensor) and part.requires_grad:
                part.register_hook(self._reach if part is logits else self._return)  # type: ignore[no-untyped-call]

    def _return(self, gradient: Tensor) -> None:
        self.context.reached = self.present  # layers that are computed again meet the views of this pass

    def _reach(self, gradient: Tensor) -> None:
        self._return(gradient)
        if gradient.dim():
            rows = (gradient != 0).reshape(len(gradient), math.prod(gradient.shape[1:])).any(1)
            self.reached = rows if self.reached is None else self.reached | rows
            self.gradient = gradient.detach()

    def graph_of(self, run: partial[object]) -> Graph | None:
        """The graph of a call, if it is this one: the same function with the same objects."""
        before, now = ([each.func, *each.args, *each.keywords.values()] for each in (self.given, run))
        same = len(before) == len(now) and all(a is b for a, b in zip(before, now))
        return self.present.graph if same else None

    def labelled(self) -> Labelled:
        """The rows that the loss was taken over."""
        if self.present.logits is None or not self.present.logits.dim():
            raise ValueError(
                "rates adapt by the logits that a training call returns, a tensor of rows or the first entry of a "
                "tuple, and the model returned none: return them so, or keep the rates, rule=rade.Constant()"
            )
        if self.reached is None or not bool(self.reached.any()):
            raise NoGradient(
                "the last training call received no gradient: adapt() without arguments needs loss.backward() first, "
                "on a loss of what the model returned"
            )
        return Labelled(self.reached.nonzero().squeeze(1))


@dataclass(eq=False)
class Repeated:
    """A call of a model that is made again; by whoever has put it into evaluation mode, in a pass of the context."""

    context: Context
    model: Module
    run: partial[object]
    readout: Readout
    known: Graph | None = None  # its graph

    def clean(self, labelled: Labelled = Labelled()) -> CleanPass:  # noqa: B008 - a frozen value
        """Over the input graph: the logits with gradients, and what the last layer sends to them.

        Where the curvature of the loss is constant, Var(δ) is all that the regulariser depends on: messages then have
        gradients, too. Labelled rows that are computed apart leave all others without.
        """
        trace, flat = Trace(), self.readout.is_flat
        apart = None if flat else labelled.apart
        with (
            torch.set_grad_enabled(apart is None),
            sdpa_kernel(SDPBackend.MATH),  # fused attention is differentiated only once
            self.context.using(trace, mode="clean"),
            following(self.model, trace),
        ):
            logits = logits_of(self.run())
        if apart is not None:
            with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), self.context.using(mode="clean"):
                logits = logits.index_copy(0, labelled.chosen(len(logits), logits.device), apart())
        batch = None if self.context.here.current is None else self.context.here.current.batch
        if batch is not None:
            _refuse_lost_graphs(batch, trace.graph)
        with torch.set_grad_enabled(flat):
            last, head = trace.last, cast("str | None", self.readout.head)  # `RADE` knows the head by its path
            classes = logits.shape[1] if logits.dim() == 2 else 1
            try:
                matrix = head_matrix(self.model, trace, classes, head)
            except ValueError:
                _refuse_scores_of_nodes(self.model, trace.calls[-1][0])
                raise
            messages = last.pushed(matrix)
            sent = LogitMessages(last.coefficients, messages)
            if not flat:
                sent = LogitMessages(last.coefficients.detached(), messages.detach())
        return CleanPass(logits, last.adjacency.graph, sent, last.adjacency.targets)

    def prediction(self, mode: Mode = "clean") -> tuple[Tensor, Tensor | None]:
        """Its logits without gradients, and the nodes of their rows, where not every node has one."""
        with torch.no_grad(), self.context.using(mode=mode):
            logits = logits_of(self.run())
        return logits, None if self.context.here.current is None else self.context.here.current.targets

    def graph(self) -> Graph:
        """The one that is known, or that it is given as an argument, or that of its last convolution with moments."""
        for value in (self.known, *self.run.args, *self.run.keywords.values()):
            if isinstance(value, Graph):
                return value
        trace = Trace()
        with torch.no_grad(), self.context.using(trace, mode="clean"):
            self.run()
        return trace.graph


def _refuse_lost_graphs(batch: BatchVectors, graph: Graph) -> None:
    """Refuse a last convolution on nodes that a pooling layer left of several graphs, where it is not told which."""
    sizes = [vector.numel() for vector in batch.vectors]
    if sizes and graph.num_nodes not in sizes and graph.num_graphs == 1 and batch.several:
        raise ValueError(
            f"the last convolution gets {graph.num_nodes} nodes that a pooling layer left of {sizes[0]}, and "
            "their graphs are unknown: pass rade.Graph.from_edge_index(edge_index, num_nodes, batch) in the place of "
            f"its edge_index, or {OTHERWISE}"
        )


def _refuse_scores_of_nodes(model: Module, last: Module) -> None:
    """Refuse a last convolution that is part of a pooling layer of PyG, where that is so."""
    for module in model.modules():
        if type(module).__module__.startswith("torch_geometric.nn.pool") and last in module.modules():
            raise ValueError(
                f"the last convolution is that of {type(module).__name__}, which scores nodes and sends nothing to the "
                f"logits: {OTHERWISE}"
            )


def _with_and_without_noise(
    last: Pass | None, mean: Tensor, graph: Graph, nodes: Tensor | None, readout: Readout, labelled: Labelled
) -> Logits:
    """The labelled rows of the last training call's logits, and of those on the mean over views."""
    scores, trained = readout.scores(mean, graph, nodes), None
    if last is not None and last.graph is graph and last.logits is not None:
        trained = last.logits if last.logits.dim() == 2 else last.logits[:, None]
        if nodes is not None and last.targets is not None:  # it may have asked for other rows: in the order of these
            place = torch.full((graph.num_nodes,), -1, device=nodes.device)
            place[last.targets] = torch.arange(len(last.targets), device=nodes.device)
            at = place[nodes]
            trained = torch.where((at >= 0)[:, None], trained[at.clamp(min=0)], torch.nan)
    if trained is None or trained.shape != scores.shape:
        raise RuntimeError(
            "this rule compares with the logits of the last training call: call adapt() after one and with the "
            f"arguments of that call; expected logits {list(scores.shape)}, "
            f"got {'none' if trained is None else list(trained.shape)}"
        )
    rows = labelled.chosen(scores.shape[0], scores.device)
    return Logits(readout.contrasts(trained[rows]), readout.contrasts(scores[rows]))


def move(state: RateState, seen: Seen) -> None:
    """One step of the rule; buffers are written in place, so that references to them stay live."""
    rule, names = state.rule, state.names
    after, own = rule.step({name: state.get_buffer(name) for name in names}, state.density, seen), type(rule).__name__
    if not isinstance(after, Mapping):
        raise ValueError(f"{own}.step must return a dict of the next {', '.join(names)}; got {after!r}")
    if set(after) != set(names):
        raise ValueError(f"{own}.step must return the names of init, {', '.join(names)}; got {', '.join(after)}")
    p, rho = torch.stack([torch.as_tensor(after["p"]).double(), torch.as_tensor(after["rho"]).double()]).tolist()
    Rates(p, 0.0)  # refuses what is none
    if not 0.0 <= rho < math.inf:
        raise ValueError(f"{own}.step must return a finite rho of at least 0, got {rho}")
    for name, value in after.items():
        state.get_buffer(name).copy_(torch.as_tensor(value).detach())
