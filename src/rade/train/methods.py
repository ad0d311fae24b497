"""The methods that are compared, by name: baselines, RADE with its flat settings, and RADE's ablations.

A method of your own is named `module:object` and needs no line here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module
from typing import Any, get_args

from torch import nn

from rade import RADE, Constant, Correction, GradNorm, NoiseRatio, Readout, Rule, Variant, Views
from rade.errors import SettingsError, choose, unknown
from rade.train.backbones import Backbone
from rade.train.baselines import DropEdge, DropMessage, DropNode, Dropout, Plain, VirtualNode
from rade.train.learner import Cadence, Context, Method

# What a configuration file or a command line can say: flat name → (argument of `RADE`, field of its value)
FLAT: dict[str, tuple[str, str]] = {
    "p": ("rule", "p"),
    "rho": ("rule", "rho"),
    "penalty": ("rule", "penalty"),
    "rate_lr": ("rule", "lr"),
    "max_p": ("rule", "max_p"),
    "nu": ("rule", "nu"),
    "horizon": ("rule", "horizon"),
    "tied": ("rule", "tied"),
    "data_gradient": ("rule", "data_gradient"),
    "moments": ("correction", "moments"),
    "max_correction": ("correction", "cap"),
    "share_view": ("views", "shared"),
    "sampling": ("views", "sampling"),
    "pooling_rule": ("readout", "pooling_rule"),
}
OF_ADAPTATION = ("data_gradient", "pooling_rule", "adapt_every")  # mean nothing where the rates are constant
# Which rule it is, as the names of stored runs say it.
RULES: dict[type[Rule], dict[str, Any]] = {
    GradNorm: {"adaptive": True, "rule": "grad-norm"},
    Constant: {"adaptive": False, "rule": "constant"},
    NoiseRatio: {"rule": "noise-ratio"},
}
LARGEST = 1e9  # of all settings


@dataclass(frozen=True)
class RandomAddDrop(Method):
    """Random Add-Drop Edge: the values of `rade.RADE`, and after which steps the rates adapt.

    Its settings have flat names; those that the chosen values lack are not offered.
    """

    variant: Variant = Variant.OF
    rule: Rule = GradNorm()  # noqa: RUF009 - a frozen value
    views: Views = Views()  # noqa: RUF009
    correction: Correction = Correction()  # noqa: RUF009
    readout: Readout = Readout()  # noqa: RUF009
    adapt_every: Cadence = "batch"
    fixed: tuple[str, ...] = ()  # flat settings that the method's name decides, and nobody else

    def __post_init__(self) -> None:
        choose("adapt_every", self.adapt_every, get_args(Cadence))
        self.rule.check_views(self.views)

    @property
    def options(self) -> dict[str, Any]:
        """The flat settings and their present values.

        >>> RandomAddDrop(rule=Constant(p=0.2, rho=0.1)).options["rho"], "penalty" in RandomAddDrop().options
        (0.1, True)
        """
        return {name: value for name, value in self._flat.items() if name not in self.fixed}

    @property
    def named(self) -> dict[str, Any]:
        return {"variant": self.variant.value, **RULES.get(type(self.rule), {}), **self._flat}

    @property
    def _flat(self) -> dict[str, Any]:
        values = vars(self)
        found: dict[str, Any] = {"adapt_every": self.adapt_every}
        for name, (argument, field) in FLAT.items():
            if field in {one.name for one in fields(values[argument])}:
                found[name] = getattr(values[argument], field)
        return {name: value for name, value in found.items() if self.rule.adapts or name not in OF_ADAPTATION}

    def configured(self, options: Mapping[str, Any]) -> RandomAddDrop:
        """The same method with other flat settings."""
        changed = {name: value for name, value in options.items() if name not in FLAT}
        parts: dict[str, dict[str, Any]] = {}
        for name in FLAT.keys() & options.keys():
            argument, field = FLAT[name]
            parts.setdefault(argument, {})[field] = options[name]
        return replace(self, **changed, **{name: replace(vars(self)[name], **mine) for name, mine in parts.items()})

    def around(self, net: nn.Module, context: Context) -> RADE:
        """The model inside `rade.RADE`, which finds the heads of models other than ours."""
        head = "head" if isinstance(net, Backbone) else None
        pool: Any = None if context.pool == "none" else context.pool
        task: Any = context.task
        return RADE(
            net,
            self.variant,
            rule=self.rule,
            views=self.views,
            correction=self.correction,
            readout=replace(self.readout, task=task, pool=pool, head=head),
            density=context.density,
            generator=context.generator,
        )


def _rade(variant: str, rule: Rule = GradNorm(), **fixed: Any) -> RandomAddDrop:  # noqa: B008 - a frozen value
    return RandomAddDrop(Variant(variant), rule, fixed=tuple(fixed)).configured(fixed)


FIXED = Constant(GradNorm().p, GradNorm().rho)  # where adaptation starts
METHODS: dict[str, Method] = {
    "none": Plain(),
    "dropout": Dropout(),
    "drop-edge": DropEdge(),
    "drop-node": DropNode(),
    "drop-message": DropMessage(),
    "virtual-node": VirtualNode(),
    "rade": RandomAddDrop(Variant.OF, Constant(), fixed=("p", "rho", "share_view")),
    "rade-of": _rade("of"),
    "rade-ofs": _rade("ofs"),
    "rade-of-fixed": _rade("of", FIXED),
    "rade-ofs-fixed": _rade("ofs", FIXED),
    "rade-ofs-expected": _rade("ofs", FIXED, sampling="expected"),
    "rade-of-noise": _rade("of", NoiseRatio()),
    "rade-ofs-noise": _rade("ofs", NoiseRatio()),
    "rade-of-uncorrected": _rade("none", FIXED),
    "rade-of-drop": _rade("of", rho=0.0),
    "rade-of-add": _rade("of", p=0.0),
    "rade-of-delta": _rade("of", moments="delta"),
    "rade-ofs-delta": _rade("ofs", moments="delta"),
    "rade-of-layered": _rade("of", share_view=False),
    "rade-ofs-layered": _rade("ofs", share_view=False),
}


@cache
def known_options() -> frozenset[str]:
    """The settings of all named methods."""
    return frozenset().union(*(method.options for method in METHODS.values()))


def no_such_option(name: str, methods: Sequence[str]) -> SettingsError:
    """The error for an option that none of the methods has, and where it would mean something."""
    owners = [word for word, method in METHODS.items() if name in method.options]
    belongs = f"; it belongs to {', '.join(owners)}" if owners else ""
    return SettingsError(f"{name} is no option of {', '.join(methods)}{belongs}")


def find_method(name: str) -> Method:
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
        value = found() if isinstance(found, type) and issubclass(found, Method) else found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SettingsError(f"method {name!r} cannot be imported: {error}; expected module:object") from None
    finally:
        sys.path.remove(os.getcwd())
    if not isinstance(value, Method):
        raise SettingsError(f"method {name!r} must be a rade.train.Method, got {type(value).__name__}")
    return value


def make(name: str, **options: Any) -> Method:
    """The method called `name` with the given settings; a setting that the name fixes or lacks is an error."""
    method, checked = find_method(name), {}
    for option, value in options.items():
        if option not in method.options:
            raise no_such_option(option, [name])
        checked[option] = _checked(option, value, method.options[option])
    return method.configured(checked)


def _checked(option: str, value: Any, default: Any) -> Any:
    """The value; a word for a number and the like is refused, by what the option is otherwise."""
    kinds: dict[type, tuple[Any, str]] = {bool: (bool, "true or false"), int: (int, "a whole number")}
    kind, name = (kinds | {float: (int | float, "a number")}).get(type(default), (object, ""))
    if not isinstance(value, kind) or (kind in (int, int | float) and isinstance(value, bool)):
        raise ValueError(f"{option} must be {name}, got {value!r}")
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        raise ValueError(f"{option} must be a finite number of at most {LARGEST:g}, got {value!r}")
    return float(value) if isinstance(default, float) else value
