"""The methods that are compared, by name: baselines, RADE with its flat settings, and RADE's ablations.

A method of your own is named `module:object` and needs no line here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, get_args

from torch import nn

from rade import (
    RADE,
    Constant,
    Correction,
    Denoised,
    Expected,
    GradNorm,
    Inference,
    Rates,
    Readout,
    Rule,
    Variant,
    Views,
)
from rade.distribution import NO_NOISE, variant_of
from rade.errors import SettingsError, choose, unknown
from rade.train.backbones import Backbone
from rade.train.baselines import DropEdge, DropMessage, DropNode, Dropout, Plain, VirtualNode
from rade.train.learner import Cadence, Context, Method
from rade.train.options import FLAT, KINDS, fields_of, flat, from_flat

# What the task decides, and what means nothing where the rates are constant.
OF_THE_TASK = ("task", "pool", "head")
OF_ADAPTATION = ("data_gradient", "pooling_rule", "adapt_every")
TRUSTED_BY = ("", "features")


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
