"""RADE: Random Add-Drop Edge for graph neural networks (regularisation and long-range paths, no rates to tune)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.comparison import Comparison, Training, compare
    from rade.control import Constant, GradNorm, Labelled, NoiseRatio, Readout, Rule
    from rade.graph import Adjacency, Graph
    from rade.noise import NoiseEstimate, estimate_noise
    from rade.view import Correction, Law, MeanView, Observed, Rates, Trust, Variant, View, Views, sample_view
    from rade.wrapper import (
        RADE,
        Check,
        Denoised,
        Ensemble,
        Expected,
        Inference,
        LayerReport,
        Uncertainty,
        check,
        convert,
        register,
        revert,
    )

__version__ = "0.1.0"

_NAMES = {
    "comparison": ("Comparison", "Training", "compare"),
    "control": ("Constant", "GradNorm", "Labelled", "NoiseRatio", "Readout", "Rule"),
    "graph": ("Adjacency", "Graph"),
    "noise": ("NoiseEstimate", "estimate_noise"),
    "view": ("Correction", "Law", "MeanView", "Observed", "Rates", "Trust", "Variant", "View", "Views", "sample_view"),
    "wrapper": (
        "RADE",
        "Check",
        "Denoised",
        "Ensemble",
        "Expected",
        "Inference",
        "LayerReport",
        "Uncertainty",
        "check",
        "convert",
        "register",
        "revert",
    ),
}
# No name here may equal a module of this package, or importing that module would hide it.
_HOMES = {name: f"rade.{folder}" for folder, names in _NAMES.items() for name in names}
_MODULES = (
    *("comparison", "control", "data", "experiment", "graph"),
    *("moments", "nn", "noise", "testing", "train", "view"),
)

__all__ = [
    "RADE",
    "Adjacency",
    "Check",
    "Comparison",
    "Constant",
    "Correction",
    "Denoised",
    "Ensemble",
    "Expected",
    "GradNorm",
    "Graph",
    "Inference",
    "Labelled",
    "Law",
    "LayerReport",
    "MeanView",
    "NoiseEstimate",
    "NoiseRatio",
    "Observed",
    "Rates",
    "Readout",
    "Rule",
    "Training",
    "Trust",
    "Uncertainty",
    "Variant",
    "View",
    "Views",
    "check",
    "compare",
    "convert",
    "estimate_noise",
    "register",
    "revert",
    "sample_view",
]


def __getattr__(name: str) -> Any:
    """Import on first use: torch and PyG take seconds, and ``rade --help`` must not wait for them."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"rade.{name}")
    raise AttributeError(f"module 'rade' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
