"""RADE: Random Add-Drop Edge for graph neural networks (regularisation and long-range paths, no rates to tune)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.graph.graph import Graph
    from rade.view.view import Correction, Law, MeanView, Rates, Variant, View, sample_view
    from rade.wrapper.conversion import convert, revert
    from rade.wrapper.module import RADE

__version__ = "0.1.0"

__all__ = [
    "RADE",
    "Correction",
    "Graph",
    "Law",
    "MeanView",
    "Rates",
    "Variant",
    "View",
    "convert",
    "revert",
    "sample_view",
]

# No name here may equal a module of this package, or importing that module would hide it.
_HOMES = {
    "RADE": "rade.wrapper.module",
    "Graph": "rade.graph.graph",
    "convert": "rade.wrapper.conversion",
    "revert": "rade.wrapper.conversion",
    **dict.fromkeys(("Correction", "Law", "MeanView", "Rates", "Variant", "View", "sample_view"), "rade.view.view"),
}
_MODULES = ("augment", "control", "data", "graph", "moments", "nn", "train", "view")


def __getattr__(name: str) -> Any:
    """Import on first use: torch and PyG take seconds, and ``rade --help`` must not wait for them."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"rade.{name}")
    raise AttributeError(f"module 'rade' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
