"""`RADE(model)`: random views in training, the matching aggregation at inference, and rates that tune themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer
from torch_geometric.nn import MessagePassing

from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.rules import GradNorm, Rule
from rade.control.state import RateState
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.memory import Memo, Recall, ordinary_tensors
from rade.nn.head import path_of
from rade.nn.trace import tracing
from rade.view.law import Correction, Law, Variant, Views
from rade.view.randomness import branch_off, moved, packed, seeded, unpack, unpacked
from rade.view.rates import Rates
from rade.view.sampling import draw
from rade.wrapper.call import Call, entry_of, find_graph, takes_graph
from rade.wrapper.conversion import convert, revert
from rade.wrapper.doubts import Doubts
from rade.wrapper.explain import LayerReport, explain_layers
from rade.wrapper.inference import Expected, Inference
from rade.wrapper.latest import Latest
from rade.wrapper.noise import NoiseReport, noise_report
from rade.wrapper.rate_step import RateStep
from rade.wrapper.running import Running, evaluating
from rade.wrapper.settings import refusal
from rade.wrapper.uncertainty import Uncertainty, uncertainty

LAWS_KEPT = 2  # that of training and that of evaluation


class RADE(Module):
    """Wrap a PyG model: fresh random views on every training call, corrected so that inference agrees in expectation.

    The wrapped model is converted in place (see `rade.convert`) and shares its parameters. Call it as you call the
    model; `adapt` takes one step of the rate rule after ``loss.backward()``. Attributes and methods that are not RADE's
    own are the wrapped model's.

    Args:
        model: any module built from the supported convolutions. Its graph is the argument named ``edge_index`` [2, E]
            (both directions of every edge) or a PyG ``Data`` object; a ``batch`` vector [n] keeps graphs apart.
        variant: ``"of"`` aligns with the input graph (RADE-OF), ``"ofs"`` keeps the expected additions at inference
            (RADE-OFS), ``"none"`` leaves views uncorrected.
        rule: how the rates move: `rade.GradNorm` adapts them, `rade.Constant` keeps them, or a `rade.Rule` of your own.
        views: how views are drawn, `rade.Views`: one per layer or one for all, Bernoulli or fixed numbers.
        correction: how moments are computed, `rade.Correction`.
        readout: task, pooling and linear head, `rade.Readout`; what rules that adapt must know.
        inference: `rade.Expected` aggregation, or an `rade.Ensemble` over sampled views.
        noise: rates at which the data's own graph has lost real edges (p) and gained spurious ones (q); training and
            inference then aim at the aggregation on the graph without them. `rade.Denoised` does so at inference alone.
        density: edges over pairs of nodes; taken from the first training graph if not given.
        generator: source of all randomness; by default one seeded from torch's.
        edge_index_arg: the name under which the model takes its graph.
        batch_arg: the name under which it takes its batch vector; ``""`` says that its graph is a single one.
        methods: other methods of the model that take the graph, ``["encode"]``; they are called like forward, on views.
        strict: refuse models with unsupported message-passing layers, instead of leaving those on the clean graph.

    >>> from torch_geometric.nn import GCN
    >>> RADE(GCN(16, 32, 2, 7), "ofs", rule=GradNorm(p=0.2, rho=0.1)).rates
    Rates(p=0.2, q=0.0)
    """

    def __init__(
        self,
        model: Module,
        variant: Variant | str = Law.variant,
        *,
        rule: Rule = GradNorm(),  # noqa: B008 - a frozen value
        views: Views = Law.views,
        correction: Correction = Law.correction,
        readout: Readout = Readout(),  # noqa: B008
        inference: Inference = Expected(),  # noqa: B008
        noise: Rates = Law.noise,
        density: float | None = None,
        generator: torch.Generator | None = None,
        edge_index_arg: str = "edge_index",
        batch_arg: str = "batch",
        methods: Sequence[str] = (),
        strict: bool = True,
        **removed: Any,
    ) -> None:
        super().__init__()
        for name, value in removed.items():
            raise TypeError(refusal(name, value))
        _require(rule=(rule, Rule), views=(views, Views), correction=(correction, Correction),
                 readout=(readout, Readout), inference=(inference, Inference), noise=(noise, Rates))  # fmt: skip
        if isinstance(model, RADE):
            raise ValueError("the model is wrapped in RADE already; wrap what it wraps, RADE(rade.revert(model), ...)")
        rule.check(correction)
        self.variant, self.views, self.correction = Variant(variant), views, correction
        self.readout = replace(readout, head=path_of(model, readout.head))
        self.inference, self.noise_of_data, self.edge_index_arg = inference, noise, edge_index_arg
        entries = [entry_of(model, name, edge_index_arg, batch_arg) for name in ("forward", *methods)]
        self._entries = {entry.method: entry for entry in entries}
        self.controller = RateState(rule, density)
        self.wrapped = convert(model, strict)
        self._generator = seeded() if generator is None else generator
        self._graphs: Recall[Graph] = Recall()
        self._laws = Memo(LAWS_KEPT)
        self._latest: Latest | None = None
        self._doubts, self._first = Doubts(), True

    @property
    def rule(self) -> Rule:
        """How the rates move."""
        return self.controller.rule

    @property
    def rates(self) -> Rates:
        """Current drop rate p and add rate q."""
        return self.controller.rates

    @property
    def generator(self) -> torch.Generator:
        """Where views come from."""
        return self._generator

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output on fresh views (training) or as `inference` says (evaluation)."""
        return self._forward("forward", *args, **kwargs)

    def _forward(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with ordinary_tensors():
            call = self._call(args, kwargs, method)
            if not self.training and is_explaining(self.wrapped):
                return Running(self.wrapped, call)(None)
            graph = self._graph(call)
            if not self.training:
                return self.inference(Running(self.wrapped, call), self._inference_law(graph))
            self._doubts.batch(call, graph)
            self.controller.see(graph)
            if self.variant.keeps_additions:
                self.controller.count(graph)
            output = self._train(Running(self.wrapped, call), draw(self.law(graph)))
            self._latest = Latest(call, graph, output)
            return output

    def _train(self, running: Running, view: Adjacency) -> Any:
        """One pass on a view; the very first one looks whether anybody uses it."""
        if not self._first or torch.compiler.is_compiling() or "_orig_mod" in dict(self.wrapped.named_children()):
            return running(view)
        with tracing(self.wrapped) as trace:
            output = running(view)
        self._first = False
        self._doubts.views(trace, view)
        return output

    def _inference_law(self, graph: Graph) -> Law:
        """At the rates that `inference` names, else the model's own, with as many additions per node as in training."""
        if self.inference.rates is not None or not self.variant.keeps_additions:
            return self.law(graph, self.inference.rates)
        return self.law(graph, self.controller.rates_for(graph))

    def __getattr__(self, name: str) -> Any:
        """Parts of RADE itself, then what the wrapped model has; methods that take the graph run on views if asked."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "wrapped" not in self.__dict__.get("_modules", {}):
                raise
        if name in self._entries:
            return partial(self._forward, name)
        found = getattr(self.wrapped, name)
        if self.training and takes_graph(self.wrapped, name, self.edge_index_arg):
            self._doubts.plain_method(name)
        return found

    def at(self, rates: Rates) -> Callable[..., Any]:
        """Evaluation at other rates, e.g. ``model.at(model.rates.scaled(n_b / n))(x, edge_index)``."""
        if self.training:
            raise RuntimeError("model.at(rates) is for evaluation: call model.eval() first")
        return self.by(replace(self.inference, rates=rates))

    def by(self, inference: Inference) -> Callable[..., Any]:
        """Evaluation in another way, e.g. ``model.by(rade.Denoised(noise=...))(x, edge_index)``."""

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            if self.training:
                raise RuntimeError("model.by(inference) is for evaluation: call model.eval() first")
            with ordinary_tensors():
                call = self._call(args, kwargs)
                return inference(Running(self.wrapped, call), self.law(self._graph(call), inference.rates))

        return evaluate

    def graph_of(self, *args: Any, **kwargs: Any) -> tuple[Tensor | None, Graph]:
        """The features and the graph among what forward takes."""
        call = self._call(args, kwargs)
        return call.x, self._graph(call)

    def law(self, graph: Graph, rates: Rates | None = None) -> Law:
        """The distribution of views of a graph, at the current rates unless others are given."""
        rates = self.controller.rates_at(graph.density) if rates is None else rates  # unseen density: this graph's
        rest = (self.variant, self.correction, self.views, self._generator_for(graph.device), self.noise_of_data)
        return self._laws.once((graph, rates), lambda: Law(graph, rates, *rest))

    def adapt(self, *args: Any, labelled: Labelled | Tensor | None = None, **kwargs: Any) -> Tensor:
        """One step of the rate rule, with the gradients that ``loss.backward()`` left; returns the clean logits.

        Args:
            args, kwargs: what forward takes; without any, the arguments of the last training call.
            labelled: rows of the logits that the loss was taken over (int64 ids or a bool mask), or a `rade.Labelled`
                that says more. By default all; without other arguments, those that the loss has reached.
        """
        if args or kwargs:
            return self._adapt(self._call(args, kwargs), Labelled.of(labelled))
        if self._latest is None:
            raise RuntimeError("adapt() without arguments repeats the last training call, but there was none")
        return self._adapt(self._latest.call, self._latest.labelled if labelled is None else Labelled.of(labelled))

    def follow(self, optimizer: Optimizer) -> RADE:
        """Adapt the rates after every step of ``optimizer``, so that a training loop needs no other line; returns self.

        Each step uses the arguments of the last training call and the rows of its output that received a gradient.
        """
        if self.rule.adapts and self.rule.data_gradient == "clean":
            raise ValueError("data_gradient='clean' needs the loss itself: call adapt(..., labelled=...) by hand")
        own = {id(parameter) for parameter in self.parameters()}
        if not any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            raise ValueError(
                "the optimizer holds no parameter of this model, so its steps say nothing about it: follow the one "
                "that was built of model.parameters()"
            )

        def after_step(*_: Any) -> None:
            if self.rule.adapts and self._latest is not None:
                self.adapt()

        optimizer.register_step_post_hook(after_step)
        return self

    def _adapt(self, call: Call, labelled: Labelled) -> Tensor:
        graph, controller = self._graph(call), self.controller
        controller.see(graph)
        if controller.rule.adapts and self._latest is not None:
            self._look(self._latest)

        step = RateStep(Running(self.wrapped, call), self.law(graph), self.readout, labelled, self._latest)
        with torch.enable_grad():  # also where the caller has switched it off
            seen, logits = step.look(controller.rule)
            if controller.rule.adapts:
                controller.step(seen)
        self._latest = None  # one training call, one rate step; and nothing of it is kept alive
        return logits

    def _look(self, latest: Latest) -> None:
        """What the last training call tells of labels and outputs."""
        if latest.reached is not None:
            self._doubts.labels(latest.reached, self.rates)
        if latest.logits is not None:
            self._doubts.outputs(latest.logits, self.readout)

    def explain(self, *args: Any, **kwargs: Any) -> list[LayerReport]:
        """What RADE does to each convolution at the current rates: one `LayerReport` per convolution called."""
        with ordinary_tensors(), torch.no_grad(), evaluating(self.wrapped), tracing(self.wrapped) as trace:
            call = self._call(args, kwargs)
            graph = self._graph(call)
            Running(self.wrapped, call)(graph)
            return explain_layers(trace, self.law(graph))

    def noise(
        self, *args: Any, labelled: Labelled | Tensor | None = None, views: int = 64, signs: int = 8, **kwargs: Any
    ) -> NoiseReport:
        """The regulariser R of this model at its present rates: sampled over ``views``, and as formulas have it."""
        with ordinary_tensors():
            call = self._call(args, kwargs)
            law = self.law(self._graph(call))
            return noise_report(Running(self.wrapped, call), law, self.readout, Labelled.of(labelled), views, signs)

    def uncertainty(self, *args: Any, views: int = 64, rates: Rates | None = None, **kwargs: Any) -> Uncertainty:
        """How far predictions hang on single edges, at the present or other rates: an `Uncertainty`."""
        if rates is not None:
            _require(rates=(rates, Rates))
        with ordinary_tensors():
            call = self._call(args, kwargs)
            graph, running = self._graph(call), Running(self.wrapped, call)
            predict = partial(self.inference, running, self._inference_law(graph))
            return uncertainty(running, self.law(graph, rates), self.readout, predict, views)

    def get_extra_state(self) -> dict[str, Tensor]:
        """The generator's state; not a buffer, since those are broadcast and ranks must draw different views."""
        return packed(self._generator)

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Continue the stream of views; ranks of a distributed run branch off into streams of their own."""
        unpack(self._generator, state)
        branch_off(self._generator)

    def __getstate__(self) -> dict[str, Any]:
        """Everything, with the generator as its state: generators cannot be pickled."""
        return self.__dict__ | {"_generator": packed(self._generator), "_latest": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"_generator": unpacked(state["_generator"])})  # type: ignore[no-untyped-call]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], method: str = "forward") -> Call:
        return self._entries[method].read(args, kwargs)

    def _graph(self, call: Call) -> Graph:
        return find_graph(call, self.wrapped, self._graphs, self.views.directed)

    def _generator_for(self, device: torch.device) -> torch.Generator:
        if self._generator.device != device:
            self._generator = moved(self._generator, device)
        return self._generator


def is_explaining(model: Module) -> bool:
    """Whether torch_geometric.explain has put its masks into the layers: they then need the plain edge_index."""
    masked = [module for module in model.modules() if isinstance(module, MessagePassing) and module.explain]
    for module in masked:
        # PyG keeps the `propagate` that knows masks per class; that of a subclass may be its parent's compiled one.
        module.__dict__["propagate"] = MessagePassing.propagate.__get__(module, MessagePassing)
    return bool(masked)


def _require(**given: tuple[object, type]) -> None:
    """Refuse what is not a value of the wanted kind."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a rade.{kind.__name__}, got {value!r}")


@revert.register
def _(model: RADE) -> Module:
    return revert(model.wrapped)
