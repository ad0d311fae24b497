"""Methods by name: the baselines of the paper, RADE, and RADE's ablations.

A new baseline is one file with a `Method` and one line in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rade.augment.base import Context, Learner, Method
from rade.augment.drop_edge import DropEdge
from rade.augment.drop_message import DropMessage
from rade.augment.drop_node import DropNode
from rade.augment.dropout import Dropout
from rade.augment.plain import Plain
from rade.augment.random_add_drop import RandomAddDrop
from rade.augment.virtual_node import VirtualNode
from rade.control.labelled import Labelled
from rade.nn.rows import Wanted
from rade.wrapper.settings import KINDS

__all__ = ["ADAPTATION", "METHODS", "Context", "Labelled", "Learner", "Method", "NamedMethod", "Wanted", "make"]


@dataclass(frozen=True)
class NamedMethod:
    """A method with a name: its value, a line of help, and the settings that the name itself fixes."""

    value: Method
    help: str
    fixed: tuple[str, ...] = ()

    @property
    def options(self) -> frozenset[str]:
        """The settings that a user may give."""
        return self.offered({})

    @property
    def known(self) -> frozenset[str]:
        """The settings that a user may give under some choice of the others."""
        words = [{name: word} for name, (_, kinds) in KINDS.items() for word in kinds]
        return self.options.union(*(self.offered(choice) for choice in words))

    def offered(self, asked: Mapping[str, Any]) -> frozenset[str]:
        """The settings that a user may give beside those ``asked``: some leave others without use."""
        chosen = {name: asked[name] for name in _CHOICES if name in asked and name not in self.fixed}
        for name, value in chosen.items():
            _check_kind(name, value, self.value.options.get(name))
        offered = self.value.configured(chosen) if chosen.keys() <= self.value.options.keys() else self.value
        return frozenset(offered.options) - set(self.fixed)


_CHOICES = tuple(KINDS)  # settings that decide which others there are


def _rade(help: str, **fixed: Any) -> NamedMethod:
    names = {"adaptive", "rule"} if {"adaptive", "rule"} & set(fixed) else set()  # two words for the kind of rule
    return NamedMethod(RandomAddDrop().configured(fixed), help, (*fixed, *sorted(names - set(fixed))))


METHODS: dict[str, NamedMethod] = {
    "none": NamedMethod(Plain(), "the backbone alone"),
    "dropout": NamedMethod(Dropout(), "dropout on hidden features"),
    "drop-edge": NamedMethod(DropEdge(), "drop edges, uncorrected"),
    "drop-node": NamedMethod(DropNode(), "zero the features of whole nodes"),
    "drop-message": NamedMethod(DropMessage(), "dropout on every message"),
    "virtual-node": NamedMethod(VirtualNode(), "a node joined to all others in every layer, at inference too"),
    "rade-of": _rade("drop and add edges, clean inference", variant="of"),
    "rade-ofs": _rade("drop and add edges, expected additions kept at inference", variant="ofs"),
    "rade-of-fixed": _rade("RADE-OF with constant rates", variant="of", adaptive=False),
    "rade-ofs-fixed": _rade("RADE-OFS with constant rates", variant="ofs", adaptive=False),
    "rade-ofs-expected": _rade("expected additions without views", variant="ofs", adaptive=False, sampling="expected"),
    "rade-of-noise": _rade("RADE-OF, rates that hold the logits' noise ratio", variant="of", rule="noise-ratio"),
    "rade-ofs-noise": _rade("RADE-OFS, rates that hold the logits' noise ratio", variant="ofs", rule="noise-ratio"),
    "rade-of-uncorrected": _rade("constant rates and no correction", variant="none", adaptive=False),
    "rade-of-drop": _rade("RADE-OF, drops only", variant="of", rho=0.0),
    "rade-of-add": _rade("RADE-OF, additions only", variant="of", p=0.0),
    "rade-of-delta": _rade("RADE-OF with the paper's delta-method moments", variant="of", moments="delta"),
    "rade-ofs-delta": _rade("RADE-OFS with the paper's delta-method moments", variant="ofs", moments="delta"),
    "rade-of-sampled": _rade("RADE-OF with the paper's sampled attention sums", variant="of", complement="sampled"),
    "rade-ofs-sampled": _rade("RADE-OFS with the paper's sampled attention sums", variant="ofs", complement="sampled"),
    "rade-of-layered": _rade("RADE-OF with an independent view per layer", variant="of", share_view=False),
    "rade-ofs-layered": _rade("RADE-OFS with an independent view per layer", variant="ofs", share_view=False),
}


def make(name: str, **options: Any) -> Method:
    """The method called `name` with the given settings; a setting that the name fixes or lacks is an error."""
    entry = METHODS[name]
    offered = entry.offered(options)
    for option, value in options.items():
        if option not in offered:
            words = ", ".join(sorted(offered)) or "none"
            raise ValueError(f"method {name} has no option {option}; its options: {words}")
        _check_kind(option, value, entry.value.options.get(option))
    return entry.value.configured(options)


def _check_kind(option: str, value: Any, default: Any) -> None:
    """Refuse a word for a number and the like, by what the option is otherwise."""
    kinds = {bool: (bool, "true or false"), int: (int, "a whole number"), float: (int | float, "a number")}
    kind, name = kinds.get(type(default), (object, ""))
    if not isinstance(value, kind) or (kind is not bool and kind is not object and isinstance(value, bool)):
        raise ValueError(f"{option} must be {name}, got {value!r}")


# Settings that only steer rates that adapt.
ADAPTATION = METHODS["rade-of"].options - METHODS["rade-of"].offered({"adaptive": False})
