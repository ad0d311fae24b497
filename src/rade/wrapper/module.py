"""`RADE(model)`: random views in training, the matching aggregation at inference, and rates that tune themselves."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer
from torch_geometric.data import Data, HeteroData

from rade.distribution import NO_NOISE, Correction, Rates, Variant, Views
from rade.errors import outside
from rade.graph.sparse import without_autocast
from rade.nn.base import convolutions
from rade.nn.context import BatchVectors, Context, Pass, Setting
from rade.nn.trace import Again, evaluating, path_of
from rade.rates.rate_step import LastCall, Repeated, rate_step
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import NoGradient, refuse_reentrant
from rade.rates.rules import DEFAULT, Rule
from rade.rates.state import RateState
from rade.runtime import distributed, ordinary_tensors, rank
from rade.views import branched, packed, unpack
from rade.wrapper.conversion import attach, attach_new, convert, revert
from rade.wrapper.inference import Denoised, Expected, Inference
from rade.wrapper.reports import LayerReport, NoiseReport, Uncertainty, explain_layers, noise_report, uncertainty
from rade.wrapper.warn import Warnings


@dataclass(frozen=True)
class Settings:
    """What `RADE` was built with; `RADE` says what each means."""

    variant: Variant
    rule: Rule
    views: Views
    correction: Correction
    readout: Readout
    inference: Inference
    noise: Denoised


class RADE(Module):
    """Wrap a PyG model: fresh random views in every training call, corrected so that inference agrees in expectation.

    The wrapped model is converted in place (see `rade.convert`) and shares its parameters. It is called with exactly
    what you pass; each of its convolutions draws a view of the ``edge_index`` that it receives. In evaluation RADE-OF
    *is* your model. Attributes and methods that are not RADE's own are the wrapped model's; RADE's settings are
    ``model.rade``.

    Args:
        model: any module with PyG convolutions. A one-way ``edge_index`` is a directed graph; an argument named
            ``batch``, or that of a ``Data`` object, keeps graphs apart.
        variant: ``"of"`` aligns with the input graph (RADE-OF), ``"ofs"`` keeps the expected additions at inference
            (RADE-OFS), ``"none"`` leaves views uncorrected.
        rule: how the rates move: `rade.Constant` keeps them, p = ρ = 0.2 unless given; `rade.GradNorm`, the paper's
            rule, and `rade.NoiseRatio` adapt them; or a `rade.Rule` of your own.
        views: how views are drawn, `rade.Views`: one per layer or one for all, Bernoulli or fixed numbers.
        correction: how expectations are kept, `rade.Correction`: by moments, where a layer has them, or pairs of views.
        readout: task, pooling and linear head, `rade.Readout`; what rules that adapt must know.
        inference: `rade.Expected` aggregation, or an `rade.Ensemble` over sampled views.
        noise: rates at which the data's own graph has lost real edges (p) and gained spurious ones (q); training and
            inference then aim at the aggregation on the graph without them. A `rade.Denoised` says which edges of the
            one graph are trusted, too; as ``inference`` it does the same at inference alone.
        density: edges over pairs of nodes; taken from the first training graph if not given. Each relation of a
            heterogeneous model has its own.
        generator: source of all randomness; by default one seeded from torch's.

    >>> from torch_geometric.nn import GCN
    >>> RADE(GCN(16, 32, 2, 7), "ofs").rates
    Rates(p=0.2, q=0.0)
    """

    wrapped: Module

    def __init__(
        self,
        model: Module,
        variant: Variant | str = Variant.OF,
        *,
        rule: Rule = DEFAULT,
        views: Views = Views(),  # noqa: B008
        correction: Correction = Correction(),  # noqa: B008
        readout: Readout = Readout(),  # noqa: B008
        inference: Inference = Expected(),  # noqa: B008
        noise: Rates | Denoised = NO_NOISE,
        density: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        _require_model(model)
        _require(rule=(rule, Rule), views=(views, Views), correction=(correction, Correction),
                 readout=(readout, Readout), inference=(inference, Inference))  # fmt: skip
        rule.check_views(views)
        variant, observed = Variant(variant), Denoised.of(noise)
        readout = replace(readout, head=path_of(model, readout.head))
        self.rade = Settings(variant, rule, views, correction, readout, inference, observed)
        self.rate_state = RateState(rule, density)
        self._latest: LastCall | None = None
        self._told = Warnings(self.rate_state)
        setting = Setting(variant, correction, views, observed.noise, observed.trust)
        self._context = Context(setting, self.rate_state, generator)
        converted = convert(model)
        if variant.keeps_additions:
            _require_moments(converted)
        attach(converted, self._context)
        self.wrapped = converted  # last: from here on, names that it holds are its own

    @property
    def rates(self) -> Rates:
        """Current drop rate p and add rate q = ρ·density, which is 0 until ``density`` is given or a graph was seen."""
        return self.rate_state.rates

    def train(self, mode: bool = True) -> RADE:
        """As any module; layers that were put into the model since it was wrapped become layers on views as well."""
        attach_new(self.wrapped, self._context)
        return super().train(mode)

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The model's output on fresh views (training) or as ``inference`` says (evaluation)."""
        return self._call(self.wrapped, *args, **kwargs)

    def _call(self, method: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """The model itself, or a method of it, as one pass."""
        run, context = partial(method, *args, **kwargs), self._context
        if torch.is_inference_mode_enabled():  # what is kept must serve training later
            with ordinary_tensors():
                return self._call(method, *args, **kwargs)
        if context.here.current is not None or (self.training and context.repeats):  # part of a pass that has begun
            return run()
        # Tensors are what they are; other arguments are kept as they are before the model has its way with them.
        later = run if not kwargs and {*map(type, args)} == {Tensor} else Again(method, *args, **kwargs)
        with context.running(_batch_of(method, args, kwargs)) as present:
            output = run() if self.training else self.rade.inference(context, run)
        for what, layers in (("plain", present.plain), ("mixed", present.mixed), ("lost", context.lost)):
            if layers:
                self._told.say(what, layers=", ".join(sorted(layers)))
        if self.training:
            self._trained(run, later, present, output)
        return output

    def _trained(self, run: partial[object], later: partial[object], present: Pass, output: object) -> None:
        """Remember a training call; one without gradients is only a look."""
        told, latest = self._told, self._latest
        same = latest is not None and latest.present.graph is present.graph
        if present.graph is not None and not same:
            told.met(present, present.graph)
        if not (present.drew or present.plain or self._context.lost) and run.func is self.wrapped:
            told.say("views")
        if not present.drew or not torch.is_grad_enabled():
            return
        if told.steps == 0 and "regulariser" in self.rade.rule.reads:
            refuse_reentrant(output)
        if latest is not None and latest.reached is not None:
            if self.rade.rule.adapts:
                told.follows(same, self.rade.rule)
            nodes = None if present.graph is None else present.graph.num_nodes
            if same and not told.looked and len(latest.reached) == nodes:
                told.labels(latest.reached)
        # The wrapped model has no say in it.
        self.__dict__["_latest"] = call = LastCall(run, later, present, output, self._context)
        if latest is not None:
            call.before = weakref.ref(latest)

    def adapt(self, *args: object, labelled: Labelled | Tensor | None = None, **kwargs: object) -> Tensor:
        """One step of the rate rule, with the gradients that ``loss.backward()`` left; returns the clean logits.

        Args:
            args, kwargs: what forward takes; without any, the last training call is repeated.
            labelled: rows of the logits that the loss was taken over (int64 ids or a bool mask), or a `rade.Labelled`
                that says more. By default all; without other arguments, those that the loss has reached.
        """
        if torch.is_inference_mode_enabled():
            with ordinary_tensors():
                return self.adapt(*args, labelled=labelled, **kwargs)
        model, last, state, told = self.wrapped, self._latest, self._told.state, self._told
        found = last
        while found is not None and found.reached is None:  # a mere look, if a loss came from a call before it
            found = found.before()
        last = found or last
        if args or kwargs:
            given, batch = partial(model, *args, **kwargs), _batch_of(model, args, kwargs)
            run: partial[object] = Again(model, *args, **kwargs)
            graph = None if last is None else last.graph_of(given)
        elif last is None:
            raise RuntimeError("adapt() without arguments repeats the last training call, but there was none")
        else:
            run, batch, graph = last.run, last.present.batch, last.present.graph
        # Also where the caller has autocast or no gradients; and layers that are computed again, for the gradient of a
        # clean pass with activation checkpointing, must do what they did in it.
        with (
            torch.enable_grad(), without_autocast(state.p.device),
            self._context.running(batch), evaluating(model), self._context.using(everywhere=True, mode="clean"),
        ):  # fmt: skip
            call = Repeated(self._context, model, run, self.rade.readout, graph)
            try:
                by_loss = labelled is None and last is not None and run is last.run
                rows = last.labelled() if by_loss and last is not None else Labelled.of(labelled)
                if last is not None and state.rule.adapts:
                    self._doubt(last)
                logits = rate_step(state, call, rows, None if last is None else last.present)
                told.steps, told.unfollowed = told.steps + 1, 0
            except (ValueError, NoGradient) as refusal:
                if told.steps == 0 or distributed():  # other ranks would wait for this one
                    raise
                told.say("left out", refusal=refusal)
                logits, _ = call.prediction()
        self.__dict__["_latest"] = None  # one training call, one rate step; and nothing of it is kept alive
        return logits

    def _doubt(self, last: LastCall) -> None:
        """Warn of what a training call tells before the rates move by it."""
        logits, told = last.present.logits, self._told
        if logits is None:
            return
        if doubt := self.rade.readout.doubt(logits, last.gradient, told.steps):
            told.say("classes", doubt=doubt)
        if last.reached is not None and not told.looked:
            told.labels(last.reached)

    def follow(self, optimizer: Optimizer) -> RADE:
        """Adapt the rates after every step of ``optimizer``, so that a training loop needs no other line; returns self.

        Each step repeats the last training call, for the rows of its output that received a gradient.
        """
        if not hasattr(optimizer, "register_step_post_hook"):
            raise TypeError(f"follow takes the optimizer that steps, such as torch.optim.Adam(...), got {optimizer!r}")
        if self.rade.rule.adapts and self.rade.rule.data_gradient == "clean":
            raise ValueError("data_gradient='clean' needs the loss itself: call adapt(..., labelled=...) by hand")
        own = {id(parameter) for parameter in self.parameters()}
        if not any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            raise ValueError(
                "the optimizer holds no parameter of this model, so its steps say nothing about it: follow the one "
                "that was built of model.parameters()"
            )

        def after_step(*_: object) -> None:
            if self.rade.rule.adapts and self._latest is not None:
                self.adapt()

        optimizer.register_step_post_hook(after_step)
        return self

    @contextmanager
    def _repeating(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Iterator[Repeated]:
        """A call that is made once or more often inside, in evaluation mode, as one pass."""
        model, context = self.wrapped, self._context
        with ordinary_tensors(), evaluating(model), context.running(_batch_of(model, args, kwargs)):
            yield Repeated(context, model, Again(model, *args, **kwargs), self.rade.readout)

    def by(self, inference: Inference) -> Callable[..., Any]:
        """Evaluation in another way, e.g. ``model.by(rade.Denoised(noise=...))(x, edge_index)``."""

        def evaluate(*args: object, **kwargs: object) -> Any:
            if self.training:
                raise RuntimeError("model.by(inference) is for evaluation: call model.eval() first")
            with ordinary_tensors(), self._context.running(_batch_of(self.wrapped, args, kwargs)):
                return inference(self._context, partial(self.wrapped, *args, **kwargs))

        return evaluate

    def explain(self, *args: object, **kwargs: object) -> list[LayerReport]:
        """What RADE does to each convolution at the current rates: one `LayerReport` per convolution called."""
        with self._repeating(args, kwargs) as call:
            return explain_layers(call)

    def noise_report(
        self,
        *args: object,
        labelled: Labelled | Tensor | None = None,
        views: int = 64,
        signs: int = 8,
        **kwargs: object,
    ) -> NoiseReport:
        """The regulariser R of this model at its present rates: sampled over ``views``, and as formulas have it."""
        with self._repeating(args, kwargs) as call:
            return noise_report(call, Labelled.of(labelled), views, signs)

    def uncertainty(self, *args: object, views: int = 64, rates: Rates | None = None, **kwargs: object) -> Uncertainty:
        """How far predictions depend on single edges, at the present or other rates: an `Uncertainty`."""
        if rates is not None:
            _require(rates=(rates, Rates))
        with self._repeating(args, kwargs) as call:
            return uncertainty(call, self.rade.inference, views, rates)

    # ---- what is the wrapped model's ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Parts of RADE itself, then what the wrapped model has; its own methods run as a pass, on views."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "wrapped" not in self.__dict__.get("_modules", {}):
                raise
        found = getattr(self.wrapped, name)
        if name == "reset_parameters":
            return self._reset_parameters
        return partial(self._call, found) if inspect.ismethod(found) and found.__self__ is self.wrapped else found

    def __setattr__(self, name: str, value: Any) -> None:
        """What the wrapped module holds is set there, unless RADE, or a subclass of it, holds it as well."""
        own, parts = vars(self), vars(self).get("_modules", {})
        if type(self) is not RADE or "wrapped" not in parts or name in own or name in parts or hasattr(RADE, name):
            return super().__setattr__(name, value)
        wrapped, kind = parts["wrapped"], getattr(type(parts["wrapped"]), name, None)
        held = name in vars(wrapped) or isinstance(kind, property) or (kind is None and hasattr(wrapped, name))
        return setattr(wrapped, name, value) if held else super().__setattr__(name, value)

    def _reset_parameters(self) -> None:
        """Parameters of the wrapped model and the rates, as before any training."""
        cast(Any, self.wrapped).reset_parameters()
        self.rate_state.reset()
        self._latest = None

    # ---- states and copies ----------------------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """The variant and the generator's state; no buffer, since those are broadcast and ranks' views must differ."""
        variant = torch.tensor([list(Variant).index(self.rade.variant)], dtype=torch.uint8)
        return torch.cat([variant, packed(self._context.generator)])

    def set_extra_state(self, state: Tensor) -> None:
        """Continue the stream of views; ranks of a distributed run branch off into streams of their own."""
        if state.dtype != torch.uint8:  # a mean of states has no stream: views go on where they are
            return
        saved, own = list(Variant)[int(state[0])], self.rade.variant
        if saved is not own:
            raise RuntimeError(
                f"the state is one of variant {saved.value!r} and this model has {own.value!r}, whose predictions "
                f"differ: load it into RADE(model, {saved.value!r}), or take the parameters alone, "
                "model.wrapped.load_state_dict(...)"
            )
        unpack(self._context.generator, state[1:])
        if rank() > 0:
            self._context.generator = branched(self._context.generator, rank())

    def __getstate__(self) -> dict[str, object]:
        """Everything but the last training call."""
        return self.__dict__ | {"_latest": None}


def _require(**given: tuple[object, type]) -> None:
    """Refuse what is not a value of the wanted kind; who gives a number for a rule learns of `rade.Constant`."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            rates = f"; constant rates are rade.Constant({value}, {value})" if isinstance(value, int | float) else ""
            raise TypeError(f"{name} must be a rade.{kind.__name__}, got {value!r}{rates}")


def _require_model(model: object) -> None:
    """Refuse what is no model, its class among it."""
    if isinstance(model, type):
        raise TypeError(f"RADE wraps a model, got the class {model.__name__}: build it, RADE({model.__name__}(...))")
    if not isinstance(model, Module):
        raise TypeError(f"RADE wraps a model, a torch.nn.Module, got {model!r}")
    if any(isinstance(part, RADE) for part in model.modules()):
        raise ValueError(
            "the model, or a part of it, is wrapped in RADE already; call rade.revert on what is wrapped, and wrap the "
            "whole model once"
        )


def _require_moments(model: Module) -> None:
    """Refuse RADE-OFS for layers whose expected additions are unknown; the model stays as it was."""
    for path, conv in convolutions(model).items():
        if reason := conv.against_moments():
            revert(model)
            raise ValueError(
                f"RADE-OFS adds the expected additions at inference, and those of {type(conv).__name__} at "
                f"{path or 'the top'!r} are unknown: {reason}; use RADE-OF, variant='of', which takes any layer"
            )


@cache
def _parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """The parameters of a method by position."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD)


def _batch_of(
    method: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> BatchVectors | None:
    """The batch vectors of a call: an argument named batch, or those of its data objects."""
    given = dict(kwargs)
    # The usual call, (x, edge_index), is not looked up by name: that would cost time in every step.
    if len(args) > 2 or (len(args) == 2 and isinstance(args[1], Tensor) and args[1].dim() == 1):
        method = getattr(method, "_orig_mod", method)  # of `torch.compile`
        forward: Any = type(method).forward if isinstance(method, Module) else cast(Any, method).__func__
        names = _parameters(forward)[1:]
        unnamed = [value for value in args[len(names) :] if _is_batch(value) and _may_be_batch(value, args)]
        given = dict(zip(("batch",), unnamed)) | dict(zip(names, args)) | given
    found = given.get("batch", given.get("batch_dict"))
    if isinstance(found, dict):
        return BatchVectors(kinds={kind: vector for kind, vector in found.items() if _is_batch(vector)})
    if _is_batch(found):
        return BatchVectors([cast(Tensor, found)])
    if {*map(type, args)} == {Tensor} and not kwargs:
        return None
    edges: list[tuple[Tensor | None, Tensor]] = []
    kinds: dict[str, Tensor] = {}
    for data in _data_objects((*args, *kwargs.values())):
        if isinstance(data, HeteroData):
            kinds |= {kind: data[kind].batch for kind in data.node_types if "batch" in data[kind]}
        elif _is_batch(data.get("batch")):
            edges.append((data.get("edge_index"), data["batch"]))
    return BatchVectors([vector for _, vector in edges], edges, kinds) if edges or kinds else None


def _data_objects(values: Iterable[object]) -> Iterator[Data | HeteroData]:
    """Those among some values, and in lists and dicts of these."""
    for value in values:
        if isinstance(value, Data | HeteroData):
            yield value
        elif isinstance(value, tuple | list | dict):
            yield from _data_objects(value.values() if isinstance(value, dict) else value)


def _is_batch(vector: object) -> bool:
    return isinstance(vector, Tensor) and vector.dim() == 1 and vector.dtype == torch.long


def _may_be_batch(vector: Any, args: Iterable[object]) -> bool:
    """Whether an argument without a name looks like one: it counts up from 0 over as many nodes as have features."""
    features = [value for value in args if isinstance(value, Tensor) and value.dim() == 2 and value.is_floating_point()]
    nodes = set(map(len, features))
    return len(vector) in nodes - {0} and int(vector[0]) == 0 and bool((vector.diff() >= 0).all())


@revert.register
def _(model: RADE) -> Module:
    if model.rade.variant.keeps_additions and model.rates.q > 0:
        warnings.warn(
            "predictions change: RADE-OFS adds the expected additions at inference, which the plain model lacks; to "
            "keep them, do not revert, predict with the wrapped model after model.eval()",
            stacklevel=outside(),
        )
    return revert(model.wrapped)
