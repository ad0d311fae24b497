"""`RADE(model)`: random views in training, the matching aggregation at inference, and rates that tune themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.rules import GradNorm, Rule
from rade.control.state import RateState
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.memory import Memo, Recall, ordinary_tensors
from rade.view.law import Correction, Law, Variant, Views
from rade.view.randomness import branch_off, moved, packed, seeded, unpack, unpacked
from rade.view.rates import Rates
from rade.view.sampling import draw
from rade.wrapper.call import Call, find_graph, on_clean, parameters_of, read_call
from rade.wrapper.clean import evaluating
from rade.wrapper.conversion import convert, is_unsupported, revert
from rade.wrapper.explain import LayerReport, explain_layers
from rade.wrapper.head import path_of
from rade.wrapper.inference import Expected, Inference
from rade.wrapper.latest import Latest
from rade.wrapper.noise import NoiseReport, noise_report
from rade.wrapper.rate_step import RateStep
from rade.wrapper.settings import refusal
from rade.wrapper.trace import tracing

LAWS_KEPT = 2  # that of training and that of evaluation


class RADE(Module):
    """Wrap a PyG model: fresh random views on every training call, corrected so that inference agrees in expectation.

    The wrapped model is converted in place (see `rade.convert`) and shares its parameters. Call it as you call the
    model; `adapt` takes one step of the rate rule after ``loss.backward()``.

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
        self._names = parameters_of(model)
        self.controller = RateState(rule, density)
        self.wrapped = convert(model, strict)
        self._generator = seeded() if generator is None else generator
        self._graphs: Recall[Graph] = Recall()
        self._laws = Memo(LAWS_KEPT)
        self._latest: Latest | None = None

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
        with ordinary_tensors():
            call = self._call(args, kwargs)
            graph = self._graph(call)
            if not self.training:
                return self.inference(partial(self._run, call), self.law(graph, self.inference.rates))
            self.controller.see(graph)
            output = self._run(call, draw(self.law(graph)))
            self._latest = Latest(call, graph, output)
            return output

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
                return inference(partial(self._run, call), self.law(self._graph(call), inference.rates))

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

        def after_step(*_: Any) -> None:
            if self.rule.adapts and self._latest is not None:
                self.adapt()

        optimizer.register_step_post_hook(after_step)
        return self

    def _adapt(self, call: Call, labelled: Labelled) -> Tensor:
        graph = self._graph(call)
        self.controller.see(graph)

        def asking(rows: Tensor) -> Callable[[Adjacency], Any]:
            return partial(self._run, call.asking(rows))

        seen = (self.law(graph), self.readout, labelled, self._latest, call.rows)
        step = RateStep(self.wrapped, partial(self._run, call), *seen, asking)
        if self.rule.adapts:
            with torch.enable_grad():
                self.controller.step(step.evidence(self.rule))
        self._latest = None  # one training call, one rate step; and nothing of it is kept alive
        return step.clean_logits

    def explain(self, *args: Any, **kwargs: Any) -> list[LayerReport]:
        """What RADE does to each convolution at the current rates: one `LayerReport` per convolution called."""
        with ordinary_tensors(), torch.no_grad(), evaluating(self.wrapped), tracing(self.wrapped) as trace:
            call = self._call(args, kwargs)
            graph = self._graph(call)
            self._run(call, graph)
            return explain_layers(trace, self.law(graph))

    def noise(
        self, *args: Any, labelled: Labelled | Tensor | None = None, views: int = 64, signs: int = 8, **kwargs: Any
    ) -> NoiseReport:
        """The regulariser R of this model at its present rates: sampled over ``views``, and as formulas have it."""
        with ordinary_tensors():
            call = self._call(args, kwargs)
            law = self.law(self._graph(call))
            run = partial(self._run, call)
            return noise_report(self.wrapped, run, law, self.readout, Labelled.of(labelled), views, signs)

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

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return read_call(self._names, self.edge_index_arg, args, kwargs)

    def _graph(self, call: Call) -> Graph:
        return find_graph(call, self.wrapped, self._graphs)

    def _run(self, call: Call, adjacency: Adjacency) -> Any:
        args, kwargs = call.with_graph(adjacency)
        alone = [module for module in self.wrapped.modules() if is_unsupported(module)]
        hooks = [module.register_forward_pre_hook(on_clean(adjacency, call), with_kwargs=True) for module in alone]
        try:
            return self.wrapped(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()

    def _generator_for(self, device: torch.device) -> torch.Generator:
        if self._generator.device != device:
            self._generator = moved(self._generator, device)
        return self._generator


def _require(**given: tuple[object, type]) -> None:
    """Refuse what is not a value of the wanted kind."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a rade.{kind.__name__}, got {value!r}")


@revert.register
def _(model: RADE) -> Module:
    return revert(model.wrapped)
