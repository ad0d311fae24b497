"""`RADE(model)`: random views in training, the matching aggregation at inference, and rates that tune themselves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from rade import distributed
from rade.control.gradients import NoGradient
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.rules import DEFAULT, Rule
from rade.control.state import RateState
from rade.errors import outside
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.memory import Recall, ordinary_tensors
from rade.nn.head import path_of
from rade.nn.modes import evaluating
from rade.nn.precision import without_autocast
from rade.nn.trace import tracing
from rade.view.law import Correction, Law, Variant, Views
from rade.view.laws import Laws
from rade.view.randomness import branch_off, packed, unpack
from rade.view.rates import Rates
from rade.view.sampling import for_training
from rade.wrapper.call import Call, entry_of, find_graph, require_finite, takes_graph
from rade.wrapper.checks import is_explaining, is_tracing, require, require_model, require_optimizer, require_rule
from rade.wrapper.conversion import convert, revert
from rade.wrapper.doubts import Doubts
from rade.wrapper.explain import LayerReport, explain_layers
from rade.wrapper.inference import Denoised, Expected, Inference
from rade.wrapper.latest import Latest
from rade.wrapper.noise import NoiseReport, noise_report
from rade.wrapper.rate_step import look_back
from rade.wrapper.running import Running
from rade.wrapper.settings import refusal
from rade.wrapper.stand_in import StandIn
from rade.wrapper.uncertainty import Uncertainty, uncertainty


class RADE(StandIn):
    """Wrap a PyG model: fresh random views on every training call, corrected so that inference agrees in expectation.

    The wrapped model is converted in place (see `rade.convert`) and shares its parameters. Call it as you call the
    model; `adapt` takes one step of the rate rule after ``loss.backward()``. Attributes and methods that are not RADE's
    own are the wrapped model's.

    Args:
        model: any module built from the supported convolutions. Its graph is the argument named ``edge_index`` [2, E]
            (both directions of every edge) or a PyG ``Data`` object; a ``batch`` vector [n] keeps graphs apart.
        variant: ``"of"`` aligns with the input graph (RADE-OF), ``"ofs"`` keeps the expected additions at inference
            (RADE-OFS), ``"none"`` leaves views uncorrected.
        rule: how the rates move: `rade.Constant` keeps them, p = ρ = 0.2 unless given; `rade.GradNorm`, the paper's
            rule, and `rade.NoiseRatio` adapt them; or a `rade.Rule` of your own.
        views: how views are drawn, `rade.Views`: one per layer or one for all, Bernoulli or fixed numbers.
        correction: how moments are computed, `rade.Correction`.
        readout: task, pooling and linear head, `rade.Readout`; what rules that adapt must know.
        inference: `rade.Expected` aggregation, or an `rade.Ensemble` over sampled views.
        noise: rates at which the data's own graph has lost real edges (p) and gained spurious ones (q); training and
            inference then aim at the aggregation on the graph without them. A `rade.Denoised` says which edges of the
            one graph are trusted, too; as ``inference`` it does the same at inference alone.
        density: edges over pairs of nodes; taken from the first training graph if not given.
        generator: source of all randomness; by default one seeded from torch's.
        edge_index_arg: the name under which the model takes its graph.
        batch_arg: the name under which it takes its batch vector; ``""`` says that its graph is a single one.
        methods: other methods of the model that take the graph, ``["encode"]``; they are called like forward, on views.
        strict: refuse models with unsupported message-passing layers, instead of leaving those on the clean graph.

    >>> from torch_geometric.nn import GCN
    >>> RADE(GCN(16, 32, 2, 7), "ofs").rates
    Rates(p=0.2, q=0.0)
    """

    def __init__(
        self,
        model: Module,
        variant: Variant | str = Law.variant,
        *,
        rule: Rule = DEFAULT,
        views: Views = Law.views,
        correction: Correction = Law.correction,
        readout: Readout = Readout(),  # noqa: B008
        inference: Inference = Expected(),  # noqa: B008
        noise: Rates | Denoised = Law.noise,
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
        require_rule(rule)
        require(views=(views, Views), correction=(correction, Correction),
                readout=(readout, Readout), inference=(inference, Inference))  # fmt: skip
        require_model(model)
        if isinstance(model, RADE):
            raise ValueError("the model is wrapped in RADE already; wrap what it wraps, RADE(rade.revert(model), ...)")
        rule.check(correction)
        rule.check_views(views)
        observed = Denoised.of(noise)
        self._laws = Laws(Variant(variant), correction, views, observed.noise, observed.trust, generator)
        self.variant, self.views, self.correction = self._laws.variant, views, correction
        self.readout = replace(readout, head=path_of(model, readout.head))
        self.inference, self.edge_index_arg = inference, edge_index_arg
        entries = [entry_of(model, name, edge_index_arg, batch_arg) for name in ("forward", *methods)]
        self._entries = {entry.method: entry for entry in entries}
        self.controller = RateState(rule, density)
        self._graphs: Recall[Graph] = Recall()
        self._latest: Latest | None = None
        self._doubts, self._first = Doubts(), True
        self.wrapped = convert(model, strict)  # last: from here on, names that it holds are its own

    @property
    def rule(self) -> Rule:
        """How the rates move."""
        return self.controller.rule

    @property
    def rates(self) -> Rates:
        """Current drop rate p and add rate q = ρ·density, which is 0 until ``density`` is given or a graph was seen."""
        return self.controller.rates

    @property
    def generator(self) -> torch.Generator:
        """Where views come from."""
        return self._laws.generator

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output on fresh views (training) or as `inference` says (evaluation)."""
        return self._forward("forward", *args, **kwargs)

    def _forward(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with ordinary_tensors():
            call = self._call(args, kwargs, method)
            if not self.training and (is_explaining(self.wrapped) or (self._is_plain and is_tracing())):
                return Running(self.wrapped, call)(None)
            graph = self._graph(call)
            if not self.training:
                return self.inference(Running(self.wrapped, call), self._law_of_inference(graph, self.inference.rates))
            self._doubts.batch(call, graph)
            learning = torch.is_grad_enabled()  # a look without gradients is no training step
            if learning:
                self._doubts.again(self._latest, graph, self.rates)
                self._doubts.follows(self._latest, graph, self.rule)
            self.controller.see(graph)
            if self.variant.keeps_additions:
                self.controller.count(graph)
            self._doubts.additions(graph, self.rates, float(self.controller.rho))
            output = self._train(Running(self.wrapped, call), for_training(self.law(graph)))
            if learning:
                self._latest = Latest(call, graph, output)
            return output

    @property
    def _is_plain(self) -> bool:
        """Whether evaluation is the wrapped model itself, which can be traced: RADE-OF on a graph taken as it is."""
        as_it_is = self._laws.noise == Law.noise and self._laws.trust.alike
        return as_it_is and type(self.inference) is Expected and not self.variant.keeps_additions

    def _train(self, running: Running, view: Adjacency) -> Any:
        """One pass on a view; the very first one looks whether anybody uses it."""
        if not self._first or torch.compiler.is_compiling() or "_orig_mod" in dict(self.wrapped.named_children()):
            return running(view)
        with tracing(self.wrapped) as trace:
            output = running(view)
        self._first = False
        self._doubts.views(trace, view)
        return output

    def _law_of_inference(self, graph: Graph, rates: Rates | None) -> Law:
        """At given rates, else the model's own with as many additions per node as in training."""
        if rates is None and self.variant.keeps_additions:
            rates = self.controller.rates_for(graph)
        return self.law(graph, rates)

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
        if name == "reset_parameters":
            return self._reset_parameters
        if self.training and takes_graph(self.wrapped, name, self.edge_index_arg):
            self._doubts.plain_method(name)
        return found

    def _reset_parameters(self) -> None:
        """Parameters of the wrapped model and the rates, as before any training."""
        cast(Any, self.wrapped).reset_parameters()
        self.controller.reset()
        self._latest = None

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """What ``state_dict()`` gave; parameters of the bare model belong into ``model.wrapped``."""
        if strict and state_dict and state_dict.keys() <= self.wrapped.state_dict().keys():
            raise RuntimeError(
                "these are the parameters of the bare model, without rates: model.wrapped.load_state_dict(state)"
            )
        return super().load_state_dict(state_dict, strict, assign)

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
                law = self._law_of_inference(self._graph(call), inference.rates)
                return inference(Running(self.wrapped, call), law)

        return evaluate

    def graph_of(self, *args: Any, **kwargs: Any) -> tuple[Tensor | None, Graph]:
        """The features and the graph among what forward takes."""
        call = self._call(args, kwargs)
        return call.x, self._graph(call)

    def law(self, graph: Graph, rates: Rates | None = None) -> Law:
        """The distribution of views of a graph, at the current rates unless others are given."""
        # As long as no density was seen, that of this graph serves.
        return self._laws(graph, self.controller.rates_at(graph.density) if rates is None else rates)

    def adapt(self, *args: Any, labelled: Labelled | Tensor | None = None, **kwargs: Any) -> Tensor:
        """One step of the rate rule, with the gradients that ``loss.backward()`` left; returns the clean logits.

        Args:
            args, kwargs: what forward takes; without any, the arguments of the last training call.
            labelled: rows of the logits that the loss was taken over (int64 ids or a bool mask), or a `rade.Labelled`
                that says more. By default all; without other arguments, those that the loss has reached.
        """
        if args or kwargs:
            return self._adapt(self._call(args, kwargs), lambda: Labelled.of(labelled))
        if self._latest is None:
            raise RuntimeError("adapt() without arguments repeats the last training call, but there was none")
        latest = self._latest
        return self._adapt(latest.call, lambda: latest.labelled if labelled is None else Labelled.of(labelled))

    def follow(self, optimizer: Optimizer) -> RADE:
        """Adapt the rates after every step of ``optimizer``, so that a training loop needs no other line; returns self.

        Each step uses the arguments of the last training call and the rows of its output that received a gradient.
        """
        require_optimizer(optimizer)
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

    def _adapt(self, call: Call, labelled: Callable[[], Labelled]) -> Tensor:
        graph, running = self._graph(call), Running(self.wrapped, call)
        self.controller.see(graph)
        with torch.enable_grad(), without_autocast(graph.device):  # also where the caller has it otherwise
            try:
                logits = self._rate_step(running, graph, labelled())
                self._doubts.stepped()
            except (ValueError, NoGradient) as refusal:
                if not self._doubts.late or distributed.running():  # other ranks would wait for this one
                    raise
                self._doubts.left_out(refusal)
                logits = running.prediction(graph)
        self._latest = None  # one training call, one rate step; and nothing of it is kept alive
        return logits

    def _rate_step(self, running: Running, graph: Graph, labelled: Labelled) -> Tensor:
        rule, rates = self.rule, self.controller.rates_at(graph.density)
        if rule.adapts and self._latest is not None:
            self._doubts.training(self._latest, rates, self.readout, rule)
        law = self._laws(graph, rates).afresh()
        step, logits = look_back(running, law, self.readout, labelled, self._latest, rule)
        if rule.adapts:
            self.controller.step(step.evidence(rule))
        return logits

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
            require(rates=(rates, Rates))
        with ordinary_tensors():
            call = self._call(args, kwargs)
            graph, running = self._graph(call), Running(self.wrapped, call)
            predict = partial(self.inference, running, self._law_of_inference(graph, self.inference.rates))
            return uncertainty(running, self._law_of_inference(graph, rates), self.readout, predict, views)

    def get_extra_state(self) -> Tensor:
        """The variant and the generator's state; no buffer, since those are broadcast and ranks' views must differ."""
        variant = torch.tensor([list(Variant).index(self.variant)], dtype=torch.uint8)
        return torch.cat([variant, packed(self.generator)])

    def set_extra_state(self, state: Tensor | dict[str, Tensor]) -> None:
        """Continue the stream of views; ranks of a distributed run branch off into streams of their own.

        Dicts are states of before, which did not tell their variant.
        """
        if isinstance(state, Tensor):
            if state.dtype != torch.uint8:  # a mean of states has no stream: views go on where they are
                return
            self._require_variant(list(Variant)[int(state[0])])
            state = state[1:]
        unpack(self.generator, state)
        branch_off(self.generator)

    def _require_variant(self, saved: Variant) -> None:
        if saved is not self.variant:
            raise RuntimeError(
                f"the state is one of variant {saved.value!r} and this model has {self.variant.value!r}, whose "
                f"predictions differ: load it into RADE(model, {saved.value!r}), or take the parameters alone, "
                "model.wrapped.load_state_dict(...)"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the last training call."""
        return self.__dict__ | {"_latest": None}

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], method: str = "forward") -> Call:
        return self._entries[method].read(args, kwargs)

    def _graph(self, call: Call) -> Graph:
        graph = find_graph(call, self.wrapped, self._graphs, self.views.directed)
        try:
            require_finite(call.x)
        except ValueError as refusal:
            if self._first:
                raise
            self._doubts.features(refusal)
        return graph


@revert.register
def _(model: RADE) -> Module:
    if model.variant.keeps_additions and model.rates.q > 0:
        warnings.warn(
            "predictions change: RADE-OFS adds the expected additions at inference, which the plain model lacks; to "
            "keep them, do not revert, predict with the wrapped model after model.eval()",
            stacklevel=outside(),
        )
    return revert(model.wrapped)
