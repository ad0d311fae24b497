"""Flat names for the fields of `RADE`'s values: what a configuration file or a command line can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from rade.errors import choose
from rade.rates.rules import Constant, GradNorm, NoiseRatio
from rade.wrapper.inference import Ensemble, Expected

# flat name → (argument of `RADE`, field of its value)
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
    "task": ("readout", "task"),
    "pool": ("readout", "pool"),
    "pooling_rule": ("readout", "pooling_rule"),
    "head": ("readout", "head"),
    "views": ("inference", "size"),
    "noise_p": ("noise", "p"),
    "noise_q": ("noise", "q"),
}
# flat name → (argument, which class of value each of its values means)
KINDS: dict[str, tuple[str, dict[Any, type[Any]]]] = {
    "adaptive": ("rule", {True: GradNorm, False: Constant}),
    "rule": ("rule", {"grad-norm": GradNorm, "noise-ratio": NoiseRatio, "constant": Constant}),
    "inference": ("inference", {"expected": Expected, "ensemble": Ensemble}),
}


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """The flat settings of values by argument: a name is offered where the chosen value has its field.

    >>> from rade.rates.rules import Constant
    >>> flat({"rule": Constant(p=0.2, rho=0.1)})
    {'adaptive': False, 'rule': 'constant', 'p': 0.2, 'rho': 0.1, 'data_gradient': 'training'}
    """
    found: dict[str, Any] = {}
    for name, (argument, kinds) in KINDS.items():
        found |= {name: word for word, kind in kinds.items() if type(values.get(argument)) is kind}  # noqa: B035
    for name, (argument, field) in FLAT.items():
        if argument in values and field in fields_of(values[argument]):
            found[name] = getattr(values[argument], field)
    return found


def from_flat(values: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Values by argument with flat ``options`` put into their fields; first the kinds of value, then the fields.

    >>> from rade.rates.rules import GradNorm
    >>> from_flat({"rule": GradNorm()}, {"adaptive": False, "p": 0.2})["rule"]
    Constant(p=0.2, rho=0.5, data_gradient='training')
    """
    changed = dict(values)
    for name, (argument, kinds) in KINDS.items():
        if name not in options:
            continue
        choose(name, options[name], tuple(kinds))
        changed[argument] = _as(kinds[options[name]], changed[argument])
    for argument in dict.fromkeys(argument for argument, _ in FLAT.values() if argument in changed):
        mine = {FLAT[name][1]: value for name, value in options.items() if name in FLAT and FLAT[name][0] == argument}
        changed[argument] = replace(changed[argument], **mine)
    return changed


def fields_of(value: Any) -> set[str]:
    """The names of a dataclass's fields, of a value or of the class."""
    return {field.name for field in fields(value)}


def _as(kind: type[Any], value: Any) -> Any:
    """A value of another kind, with the rates and what was chosen of the fields that both have.

    Other defaults are each kind's own.
    """
    if type(value) is kind:
        return value
    default, common = type(value)(), fields_of(value) & fields_of(kind)
    mine = {name: getattr(value, name) for name in sorted(common)}
    return kind(**{name: it for name, it in mine.items() if name in ("p", "rho") or it != getattr(default, name)})
