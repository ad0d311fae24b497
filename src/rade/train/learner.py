"""What the loop trains: a model under a method, called step by step, its rates following each step."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from rade import RADE, Expected, Graph, Labelled, Rates
from rade.errors import SettingsError
from rade.nn.trace import logits_of

Cadence = Literal["batch", "epoch"]


@dataclass(frozen=True)
class Context:
    """What a method may ask about its task: the randomness, the data's edge density, the loss and the pooling."""

    generator: torch.Generator
    density: float
    task: str
    pool: str


@dataclass(frozen=True)
class Method(ABC):
    """A method as a value; its fields are its settings."""

    @abstractmethod
    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model that is trained in place of `net`, and called as `net` is."""

    def penalty(self, net: nn.Module, data: Data, logits: Tensor) -> Tensor | float:
        """What a step adds to the loss; net: the model that is trained, logits: those of the step."""
        return 0.0

    @property
    def adapt_every(self) -> Cadence:
        """When rates that adapt do so: after every step, or after the last one of an epoch."""
        return "batch"

    @property
    def options(self) -> dict[str, Any]:
        """The settings that a user may give, and their present values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def named(self) -> dict[str, Any]:
        """What the names of runs say of it: its settings, and what else decides their numbers."""
        return self.options

    def configured(self, options: Mapping[str, Any]) -> Method:
        """The same method with other settings."""
        return replace(self, **options)


@dataclass(frozen=True, eq=False)
class Step:
    """What a learner is called with: a graph, or several as one, and which rows of the logits are asked for.

    Attributes:
        labels: of the rows.
        rows: of the logits; None: all.
        judged: rows that the next evaluation will ask for.
        whole: the graph, where it is known already.
        scale: how many times as often a pair of nodes is joined at inference, on graphs of another size.
        weight: its part among processes.
        last: whether it ends an epoch.
    """

    data: Data
    labels: Tensor
    rows: Tensor | None = None
    judged: Tensor | None = None
    whole: Graph | None = None
    scale: float = 1.0
    weight: float = 1.0
    last: bool = True

    @cached_property
    def graph(self) -> Graph:
        """As the layers of our backbones take it."""
        data = self.data
        return self.whole or Graph.from_edge_index(data.edge_index, data.num_nodes, data.get("batch"))

    @property
    def known(self) -> Tensor | None:
        """Which labels are known, where some may be missing (NaN)."""
        return ~torch.isnan(self.labels) if self.labels.is_floating_point() else None

    @cached_property
    def clean(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of one clean pass, each once: those trained on and those judged, and where each stand among them."""
        assert self.rows is not None
        judged = self.rows[:0] if self.judged is None else self.judged
        rows, place = torch.unique(torch.cat([self.rows, judged]), return_inverse=True)
        trained, judged = torch.split(place, [len(self.rows), len(judged)])
        return rows, trained, judged


class Learner(nn.Module):
    """A model under a method: perturbed in training, clean in evaluation."""

    by_rows = False  # whether a step may ask for single rows at less cost than for all

    def __init__(self, net: nn.Module, generator: torch.Generator, method: Method) -> None:
        super().__init__()
        if not isinstance(net, nn.Module):
            raise SettingsError(f"a method must return a model, got {type(net).__name__}")
        self.net, self.generator, self.method = net, generator, method
        self._wrapped = [module for module in net.modules() if isinstance(module, RADE)]

    def forward(self, step: Step) -> Tensor:
        """Logits of the rows that the step asks for."""
        raise NotImplementedError

    def penalty(self, step: Step, logits: Tensor) -> Tensor | float:
        """What the method adds to the loss of a step."""
        return self.method.penalty(self.net, step.data, logits)

    def adapts_after(self, last: bool) -> bool:
        """Whether to call `adapt` after a step, the `last` of its epoch or another."""
        return any(model.rade.rule.adapts for model in self._wrapped) and (last or self.method.adapt_every == "batch")

    def adapt(self, step: Step, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """One step of all rates; the evaluation logits of the judged rows if that made them anyway."""
        raise NotImplementedError

    @property
    def rates(self) -> Rates:
        """The present rates of the model, or of the first part that has any."""
        return self._wrapped[0].rates if self._wrapped else Rates(0.0, 0.0)


def evaluates_clean(model: RADE) -> bool:
    """Whether the clean logits of a rate step are those of evaluation."""
    own = model.rade
    noisy = own.noise.noise != Rates(0.0, 0.0)
    return not (own.variant.keeps_additions or noisy) and type(own.inference) is Expected


class BackboneLearner(Learner):
    """One of our backbones, which computes the rows that are asked for and little else."""

    by_rows = True

    def forward(self, step: Step) -> Tensor:
        net: Callable[..., Tensor] = self.net
        if step.scale != 1.0 and isinstance(self.net, RADE):
            net = self.net.by(Expected(rates=self.net.rates.scaled(step.scale)))
        batch = step.data.get("batch")
        return net(step.data.x, step.graph, batch=batch, rows=step.rows, local=self._local)

    @property
    def _local(self) -> bool:
        """Whether nodes hear their neighbors alone: without views, or without additions to them."""
        if not isinstance(self.net, RADE):
            return True
        drops_alone = self.net.rade.noise.noise == Rates(0.0, 0.0) and float(self.net.rates.q) == 0.0
        return drops_alone if self.training else evaluates_clean(self.net)

    def adapt(self, step: Step, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        model = self.net
        assert isinstance(model, RADE)
        x, batch = step.data.x, step.data.get("batch")
        if step.rows is None:
            labelled = Labelled(None, step.known, loss, step.weight)
            clean = model.adapt(x, step.graph, batch=batch, rows=None, labelled=labelled)
            return clean if evaluates_clean(model) else None
        rows, trained, judged = step.clean
        net, apart = cast(Any, model.wrapped), None
        if net.heard(step.graph, step.rows):  # gradients through what few rows hear cost less than through everybody
            apart = partial(net, x, step.graph, rows=step.rows, local=True)
        labelled = Labelled(trained, step.known, lambda logits: loss(logits[trained]), step.weight, apart)
        clean = model.adapt(x, step.graph, batch=batch, rows=rows, labelled=labelled)
        return clean[judged] if evaluates_clean(model) else None


class OwnLearner(Learner):
    """A model of the user's, with whatever a method has put around it or into it."""

    def __init__(self, net: nn.Module, generator: torch.Generator, method: Method, call: Call) -> None:
        super().__init__(net, generator, method)
        self.call = call

    def forward(self, step: Step) -> Tensor:
        logits = self.call(self.net, step.data)
        return logits if step.rows is None else logits[step.rows]

    def adapt(self, step: Step, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        rows, known, clean = step.rows, step.known, None
        known = known if known is None or known.dim() == 2 else known[:, None]
        labelled = Labelled(rows, known, loss if rows is None else lambda logits: loss(logits[rows]))
        for model in self._wrapped:
            if model is self.net:
                logits = model.adapt(labelled=labelled)
                clean = logits if evaluates_clean(model) else None
            elif model.rade.rule.adapts:
                model.adapt()
        return clean


Call = Callable[[nn.Module, Data], Tensor]  # logits [k, C] or [k] of a model; of several outputs the first


def way_to_call(net: nn.Module) -> Call:
    """How a model is called with a `Data` object: by the names of its forward's parameters, or with the object."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(net.forward).parameters
    taken = {name: one.default for name, one in parameters.items() if one.kind in kinds}
    needed = [name for name, default in taken.items() if default is inspect.Parameter.empty]
    if "edge_index" in parameters:
        return lambda net, data: logits_of(net(**_arguments(data, list(taken), needed)))
    if len(needed) > 1:
        raise ValueError(
            f"the model's forward takes {', '.join(needed)}; it is called with parts of the data by name, "
            "the graph being edge_index, or with the Data object alone: rename the parameter, or put the "
            "model into one whose forward takes x and edge_index"
        )
    return lambda net, data: logits_of(net(data))


def _arguments(data: Data, names: Sequence[str], needed: Sequence[str]) -> dict[str, Any]:
    """The parts of the data that a model takes by name."""
    found = {name: data[name] for name in names if name in data and data[name] is not None}
    missing = [name for name in needed if name not in found]
    if missing == ["batch"]:  # a single graph
        return {**found, "batch": None}
    if missing:
        raise ValueError(
            f"the model's forward needs {missing[0]!r}, which the data does not have (it has "
            f"{', '.join(sorted(data.keys()))}); add it to the data, or let forward take the Data object"
        )
    return found
