"""Regularisers by name: the baselines of the paper, RADE, and RADE's ablations.

A new baseline is one file with a `Method` and one line in `METHODS`.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from rade.augment.base import Context, Labelled, Learner, Method
from rade.augment.drop_edge import DropEdge
from rade.augment.drop_message import DropMessage
from rade.augment.drop_node import DropNode
from rade.augment.dropout import Dropout
from rade.augment.plain import Plain
from rade.augment.random_add_drop import ADAPTATION, RandomAddDrop

__all__ = ["ADAPTATION", "METHODS", "Context", "Entry", "Labelled", "Learner", "Method", "make"]


@dataclass(frozen=True)
class Entry:
    """A named method: its value, a line of help, and the fields that the name itself fixes or leaves without use."""

    value: Any
    help: str
    fixed: tuple[str, ...] = ()

    @property
    def options(self) -> frozenset[str]:
        """The fields a user may set."""
        return frozenset(field.name for field in fields(self.value)) - set(self.fixed)


def _rade(help: str, **fixed: Any) -> Entry:
    unused = () if fixed.get("adaptive", True) else ADAPTATION
    return Entry(RandomAddDrop(**fixed), help, (*fixed, *unused))


METHODS: dict[str, Entry] = {
    "none": Entry(Plain(), "the backbone alone"),
    "dropout": Entry(Dropout(), "dropout on hidden features"),
    "drop-edge": Entry(DropEdge(), "drop edges, uncorrected"),
    "drop-node": Entry(DropNode(), "zero the features of whole nodes"),
    "drop-message": Entry(DropMessage(), "dropout on every message"),
    "rade-of": _rade("drop and add edges, clean inference", variant="of"),
    "rade-ofs": _rade("drop and add edges, expected additions kept at inference", variant="ofs"),
    "rade-of-fixed": _rade("RADE-OF with constant rates", variant="of", adaptive=False),
    "rade-ofs-fixed": _rade("RADE-OFS with constant rates", variant="ofs", adaptive=False),
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
    foreign = sorted(set(options) - entry.options)
    if foreign:
        offered = ", ".join(sorted(entry.options)) or "none"
        raise ValueError(f"method {name} has no option {foreign[0]}; its options: {offered}")
    for option, value in options.items():
        _check_kind(option, value, getattr(entry.value, option))
    method: Method = replace(entry.value, **options)
    return method


def _check_kind(option: str, value: Any, default: Any) -> None:
    """Refuse a word for a number and the like, by what the option is otherwise."""
    kinds = {bool: (bool, "true or false"), int: (int, "a whole number"), float: (int | float, "a number")}
    kind, name = kinds.get(type(default), (object, ""))
    if not isinstance(value, kind) or (kind is not bool and kind is not object and isinstance(value, bool)):
        raise ValueError(f"{option} must be {name}, got {value!r}")
