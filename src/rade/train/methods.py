"""The methods that are compared: the baselines of the paper, RADE, and RADE's ablations, all by name.

A new baseline is a `Method` and a line in `METHODS`; one of your own is named `module:object` and needs neither.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn

from rade import (
    RADE,
    Constant,
    Correction,
    Denoised,
    Expected,
    GradNorm,
    Graph,
    Inference,
    Rates,
    Readout,
    Rule,
    Variant,
    Views,
)
from rade.correction import Adjacency
from rade.distribution import NO_NOISE, variant_of
from rade.errors import SettingsError, choose, unknown
from rade.moments import Coefficients
from rade.nn import GINConv
from rade.nn.linear import linear
from rade.sums import Messages
from rade.train.backbones import Backbone
from rade.train.learner import Cadence, Context, Method
from rade.train.options import FLAT, KINDS, fields_of, flat, from_flat

# Below this share of non-zeros, messages are thinned entry by entry: input features of GIN are wide and mostly zero.
SPARSE_BELOW = 0.1
# What the task decides, and what means nothing where the rates are constant.
OF_THE_TASK = ("task", "pool", "head")
OF_ADAPTATION = ("data_gradient", "pooling_rule", "adapt_every")
TRUSTED_BY = ("", "features")


@dataclass(frozen=True)
class Plain(Method):
    """Train on the clean graph."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model as it is."""
        return net


@dataclass(frozen=True)
class Dropping(Method):
    """Something is left out with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:  # at 1 nothing is left to scale up
            raise ValueError(f"the drop rate must lie in [0, 1), got {self.rate}")

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """One of our backbones, which has places for it."""
        return self.inside(backbone(net, self), context)

    def inside(self, net: Backbone, context: Context) -> nn.Module:
        """The backbone with this method in its places."""
        raise NotImplementedError


def backbone(net: nn.Module, method: Method) -> Backbone:
    """The model as one of our backbones; refused where it is none."""
    if not isinstance(net, Backbone):
        raise ValueError(
            f"{type(method).__name__} is for rade's own backbones, whose places it needs; build it into your model, "
            "and pass a function from your model to that one instead of the name"
        )
    return net


@dataclass(frozen=True)
class DropEdge(Dropping):
    """Rong et al. (2020): train on a random subgraph, renormalised and uncorrected."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The model on random subgraphs, one for all layers."""
        rates = Constant(self.rate, 0.0)
        return RADE(net, Variant.NONE, rule=rates, views=Views(shared=True), generator=context.generator)


def thin(values: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero each element with probability `rate` and scale the others by 1/(1 − rate)."""
    # Uniform numbers compared in place: four times as fast as `bernoulli_` on a CPU.
    kept = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=values.device).ge_(rate)
    return values * kept.div_(1 - rate)


class Thinning(nn.Module):
    """A place of a backbone where something random happens in training."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator


class FeatureDropout(Thinning):
    """Element-wise dropout that draws from an explicit generator."""

    def forward(self, x: Tensor) -> Tensor:
        """Thin x in training, return it in evaluation."""
        return thin(x, self.rate, self.generator) if self.training else x


@dataclass(frozen=True)
class Dropout(Dropping):
    """Srivastava et al. (2014): zero hidden features, behind every activation."""

    def inside(self, net: Backbone, context: Context) -> nn.Module:
        net.after = FeatureDropout(self.rate, context.generator)
        return net


class RowDropout(Thinning):
    """Zeroes each row with probability `rate` and scales the others by 1/(1 − rate), in training."""

    def forward(self, x: Tensor) -> Tensor:
        """A fresh set of rows at every training step; x: [n, F] dense or sparse CSR."""
        if not self.training:
            return x
        factor = thin(torch.ones(x.size(0), device=x.device), self.rate, self.generator)
        if x.layout is torch.strided:
            return x * factor.unsqueeze(1)
        crow = x.crow_indices()
        values = x.values() * factor.repeat_interleave(crow.diff())
        return torch.sparse_csr_tensor(crow, x.col_indices(), values, x.shape, check_invariants=False)


@dataclass(frozen=True)
class DropNode(Dropping):
    """Feng et al. (2020): zero the features of whole nodes, once they are encoded: categories cannot be scaled."""

    def inside(self, net: Backbone, context: Context) -> nn.Module:
        net.before = RowDropout(self.rate, context.generator)
        return net


@dataclass(frozen=True, eq=False)
class ThinnedMessages(Adjacency):
    """An adjacency whose messages each lose elements at random: Σ_j dropout(α_ij m_j) + dropout(α_ii m_i)."""

    linear: ClassVar[bool] = False  # a map of the sum is none of what was thinned
    rate: float = 0.5
    generator: torch.Generator | None = None

    def aggregate(self, coefficients: Coefficients, messages: Tensor | Messages) -> Tensor:
        """messages: [n, F] or [n, H, F]; fresh draws on every call."""
        assert isinstance(messages, Tensor)
        weights = coefficients.realised(coefficients.clean())
        own = thin(weights.loop.unsqueeze(-1) * messages, self.rate, self.generator)
        if not messages.requires_grad and messages.count_nonzero() < SPARSE_BELOW * messages.numel():
            return self.own(own + _receive_entries(self, weights.edges, messages))
        sent = weights.edges.unsqueeze(-1) * messages[self.graph.pattern.source]
        return self.own(own + self.graph.pattern.row_sum(thin(sent, self.rate, self.generator)))


def _receive_entries(adjacency: ThinnedMessages, weights: Tensor, messages: Tensor) -> Tensor:
    """The same sum over edges, for messages [n, F] of which only the non-zero entries travel."""
    pattern = adjacency.graph.pattern
    node, column = messages.nonzero(as_tuple=True)
    count = torch.bincount(node, minlength=len(messages))
    first = count.cumsum(0) - count
    edge = torch.repeat_interleave(count[pattern.source])  # [entries sent] the edge of each
    start = count[pattern.source].cumsum(0) - count[pattern.source]
    entry = torch.arange(len(edge), device=edge.device) - start[edge] + first[pattern.source[edge]]
    values = thin(weights[edge] * messages[node[entry], column[entry]], adjacency.rate, adjacency.generator)
    received = messages.new_zeros(messages.numel())
    place = pattern.target[edge] * messages.size(1) + column[entry]
    return received.index_add(0, place, values).view_as(messages)


class ThinnedNet(nn.Module):
    """A backbone whose messages are thinned in every layer, independently, in training."""

    def __init__(self, net: Backbone, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.net, self.rate, self.generator = net, rate, generator

    def forward(self, x: Tensor, edge_index: Any, **inputs: Any) -> Tensor:
        """As the backbone."""
        adjacency = edge_index
        if self.training:
            adjacency = ThinnedMessages(edge_index, rate=self.rate, generator=self.generator)
        logits: Tensor = self.net(x, adjacency, **inputs)
        return logits


@dataclass(frozen=True)
class DropMessage(Dropping):
    """Fang et al. (2023): zero each element of each message, after its coefficient."""

    def inside(self, net: Backbone, context: Context) -> nn.Module:
        for module in net.modules():
            if isinstance(module, GINConv):
                # GIN's messages are its inputs, but GINConv moves its first linear map before the sum where it leads.
                module.nn = nn.Sequential(nn.Identity(), *module.nn)
        return ThinnedNet(net, self.rate, context.generator)


class VirtualNodeConv(nn.Module):
    """A convolution beside a new node per graph: conv(x)_i + Θ · mean of x over the graph of i."""

    def __init__(self, convolution: Any, inputs: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.convolution = convolution
        self.map = nn.Linear(inputs, width, bias=False, device=generator.device)
        nn.init.xavier_uniform_(self.map.weight, generator=generator)  # not from torch's own stream, which nobody seeds

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """x: [n, F_in], dense or CSR; returns [n, F_out]."""
        own: Tensor = self.convolution(x, graph)
        return own + self._everyone(x, graph).index_select(0, graph.batch)

    def for_targets(self, rows: Tensor, x: Tensor, graph: Graph) -> Tensor:
        """The same for some nodes."""
        own: Tensor = self.convolution.for_targets(rows, x, graph)
        return own + self._everyone(x, graph).index_select(0, graph.batch[rows])

    def _everyone(self, x: Tensor, graph: Graph) -> Tensor:
        """The mapped mean of each graph, [graphs, F_out]."""
        return graph.pool(linear(self.map, x)) / graph.sizes.clamp(min=1)[:, None]


@dataclass(frozen=True)
class VirtualNode(Method):
    """Gilmer et al. (2017): a node joined to all others in every layer, at inference too; nothing is random."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """The backbone with a virtual node beside each convolution."""
        net = backbone(net, self)
        for number, convolution in enumerate(net.convolutions):
            inputs = next(weight.size(1) for weight in convolution.parameters() if weight.dim() == 2)
            layer = VirtualNodeConv(convolution, inputs, net.head.in_features, context.generator)
            net.convolutions[number] = layer
        return net


@dataclass(frozen=True)
class RandomAddDrop(Method):
    """Random Add-Drop Edge: the values of `rade.RADE`, and after which steps the rates adapt.

    Its settings have the flat names of `rade.train.options`; those that the chosen values lack are not offered.
    """

    variant: Variant | str = Variant.OF
    rule: Rule = GradNorm()  # noqa: RUF009 - a frozen value
    views: Views = Views()  # noqa: RUF009
    correction: Correction = Correction()  # noqa: RUF009
    readout: Readout = Readout()  # noqa: RUF009
    inference: Inference = Expected()  # noqa: RUF009
    noise: Rates | Denoised = NO_NOISE  # of the data's own graph
    noise_trust: str = ""  # the similarity by which its edges are trusted; empty: all alike
    adapt_every: Cadence = "batch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "variant", variant_of(self.variant))
        choose("adapt_every", self.adapt_every, get_args(Cadence))
        choose("noise_trust", self.noise_trust, TRUSTED_BY)
        self.rule.check_views(self.views)

    @property
    def options(self) -> dict[str, Any]:
        """The flat settings and their present values."""
        own = {"variant": variant_of(self.variant).value, "adapt_every": self.adapt_every}
        found = {**own, "noise_trust": self.noise_trust, **flat(vars(self))}
        hidden = OF_THE_TASK if self.rule.adapts else OF_THE_TASK + OF_ADAPTATION
        return {name: value for name, value in found.items() if name not in hidden}

    def configured(self, options: Mapping[str, Any]) -> RandomAddDrop:
        """The same method with other flat settings."""
        own = {name: value for name, value in options.items() if name not in FLAT and name not in KINDS}
        return RandomAddDrop(**from_flat(vars(self), options) | own)

    @property
    def cadence(self) -> Cadence:
        return self.adapt_every

    def around(self, net: nn.Module, context: Context) -> RADE:
        """The model inside `rade.RADE`, which finds the heads of models other than ours."""
        head = "head" if isinstance(net, Backbone) else None
        pool: Any = None if context.pool == "none" else context.pool
        task: Any = context.task
        noise = self.noise
        if self.noise_trust and isinstance(noise, Rates):
            noise = Denoised(noise, context.trust(noise))
        return RADE(
            net,
            self.variant,
            rule=self.rule,
            views=self.views,
            correction=self.correction,
            readout=replace(self.readout, task=task, pool=pool, head=head),
            inference=self.inference,
            noise=noise,
            density=context.density,
            generator=context.generator,
        )


@dataclass(frozen=True)
class NamedMethod:
    """A method with a name: its value, and the settings that the name itself fixes."""

    value: Method
    fixed: tuple[str, ...] = ()

    @property
    def options(self) -> frozenset[str]:
        """The settings that a user may give."""
        return self.offered({})

    def offered(self, asked: Mapping[str, Any]) -> frozenset[str]:
        """The settings that a user may give beside those asked for: the kind of rule decides which others there are."""
        choices = self.value.options.keys() & KINDS.keys() - set(self.fixed)
        chosen = self.value.configured({name: asked[name] for name in KINDS if name in choices and name in asked})
        return frozenset(chosen.options) - set(self.fixed)


def _rade(**fixed: Any) -> NamedMethod:
    names = {"adaptive", "rule"} if {"adaptive", "rule"} & set(fixed) else set()  # two words for the kind of rule
    return NamedMethod(RandomAddDrop().configured(fixed), (*fixed, *sorted(names - set(fixed))))


_DEFAULT = {"variant": "of", "adaptive": False, "p": Constant().p, "rho": Constant().rho, "share_view": Views().shared}
METHODS: dict[str, NamedMethod] = {
    "none": NamedMethod(Plain()),
    "dropout": NamedMethod(Dropout()),
    "drop-edge": NamedMethod(DropEdge()),
    "drop-node": NamedMethod(DropNode()),
    "drop-message": NamedMethod(DropMessage()),
    "virtual-node": NamedMethod(VirtualNode()),
    "rade": _rade(**_DEFAULT),
    "rade-of": _rade(variant="of"),
    "rade-ofs": _rade(variant="ofs"),
    "rade-of-fixed": _rade(variant="of", adaptive=False),
    "rade-ofs-fixed": _rade(variant="ofs", adaptive=False),
    "rade-ofs-expected": _rade(variant="ofs", adaptive=False, sampling="expected"),
    "rade-of-noise": _rade(variant="of", rule="noise-ratio"),
    "rade-ofs-noise": _rade(variant="ofs", rule="noise-ratio"),
    "rade-of-uncorrected": _rade(variant="none", adaptive=False),
    "rade-of-drop": _rade(variant="of", rho=0.0),
    "rade-of-add": _rade(variant="of", p=0.0),
    "rade-of-delta": _rade(variant="of", moments="delta"),
    "rade-ofs-delta": _rade(variant="ofs", moments="delta"),
    "rade-of-layered": _rade(variant="of", share_view=False),
    "rade-ofs-layered": _rade(variant="ofs", share_view=False),
}


@cache
def known_options() -> frozenset[str]:
    """The settings of all named methods, whatever their kinds."""
    choices = [{}, *({name: word} for name, (_, words) in KINDS.items() for word in words)]
    return frozenset(name for entry in METHODS.values() for choice in choices for name in entry.offered(choice))


def no_such_option(name: str, methods: Sequence[str], asked: Mapping[str, Any]) -> SettingsError:
    """The error for an option that none of the methods has beside what was asked, and where it would mean something."""
    what = "fixed_rates" if name == "adaptive" else name
    if any(name in find_method(method).options for method in methods):
        kinds = [f"{kind} = {asked[kind]!r}" for kind in KINDS if kind in asked]
        words = " and ".join(kinds).replace("adaptive = False", "fixed rates")
        return SettingsError(f"{words} and {what} contradict each other; leave one of them out")
    owners = [method for method, entry in METHODS.items() if name in entry.options]
    if name in FLAT and not owners:
        argument, field = FLAT[name]
        for kind, (at, values) in KINDS.items():
            having = [word for word, value in values.items() if at == argument and field in fields_of(value)]
            owners += [f"RADE with {kind} = {word!r}" for word in having]
    if not owners:
        return SettingsError(f"{', '.join(methods)} has no option {name}")
    return SettingsError(f"{what} is no option of {', '.join(methods)}; it belongs to {', '.join(owners)}")


def find_method(name: str) -> NamedMethod:
    """The method called `name`, or the `Method` (a value or its class) that `module:object` names.

    Modules beside which the command was started are found, too.
    """
    if ":" not in name:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"method {name!r} cannot be imported: {error}; expected module:object") from None
    finally:
        sys.path.remove(os.getcwd())
    value = found() if isinstance(found, type) and issubclass(found, Method) else found
    if not isinstance(value, Method):
        raise SettingsError(f"method {name!r} must be a rade.train.Method, got {type(value).__name__}")
    return NamedMethod(value)


def make(name: str, **options: Any) -> Method:
    """The method called `name` with the given settings; a setting that the name fixes or lacks is an error."""
    entry = find_method(name)
    offered = entry.offered(options)
    for option, value in options.items():
        if option not in offered:
            raise no_such_option(option, [name], options)
        _check_kind(option, value, entry.value.options.get(option))
    return entry.value.configured(options)


def _check_kind(option: str, value: Any, default: Any) -> None:
    """Refuse a word for a number and the like, by what the option is otherwise."""
    kinds = {bool: (bool, "true or false"), int: (int, "a whole number"), float: (int | float, "a number")}
    kind, name = kinds.get(type(default), (object, ""))
    if not isinstance(value, kind) or (kind is not bool and kind is not object and isinstance(value, bool)):
        raise ValueError(f"{option} must be {name}, got {value!r}")
