"""RADE: Random Add-Drop Edge for graph neural networks (regularisation and long-range paths, no rates to tune)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.comparison import Comparison, Training, compare
    from rade.distribution import Correction, Rates, Trust, Variant, Views
    from rade.graph import Graph
    from rade.noise import NoiseEstimate, estimate_noise
    from rade.rates.readout import Labelled, Readout
    from rade.rates.rules import Constant, GradNorm, NoiseRatio, Rule
    from rade.views import View, sample_view
    from rade.wrapper.check import Check, check
    from rade.wrapper.conversion import convert, register, revert
    from rade.wrapper.inference import Denoised, Ensemble, Expected, Inference
    from rade.wrapper.module import RADE
    from rade.wrapper.reports import LayerReport, NoiseReport, Uncertainty

__version__ = "0.2.0"

_NAMES = {
    "comparison": ("Comparison", "Training", "compare"),
    "distribution": ("Correction", "Rates", "Trust", "Variant", "Views"),
    "graph": ("Graph",),
    "noise": ("NoiseEstimate", "estimate_noise"),
    "rates.readout": ("Labelled", "Readout"),
    "rates.rules": ("Constant", "GradNorm", "NoiseRatio", "Rule"),
    "views": ("View", "sample_view"),
    "wrapper.check": ("Check", "check"),
    "wrapper.conversion": ("convert", "register", "revert"),
    "wrapper.inference": ("Denoised", "Ensemble", "Expected", "Inference"),
    "wrapper.module": ("RADE",),
    "wrapper.reports": ("LayerReport", "NoiseReport", "Uncertainty"),
}
_HOMES = {name: f"rade.{module}" for module, names in _NAMES.items() for name in names}
_MODULES = ("data", "experiment", "moments", "nn", "testing", "train")

__all__ = [
    "RADE", "Check", "Comparison", "Constant", "Correction", "Denoised", "Ensemble", "Expected", "GradNorm",
    "Graph", "Inference", "Labelled", "LayerReport", "NoiseEstimate", "NoiseRatio", "NoiseReport", "Rates",
    "Readout", "Rule", "Training", "Trust", "Uncertainty", "Variant", "View", "Views", "check", "compare",
    "convert", "estimate_noise", "register", "revert", "sample_view",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use: torch and PyG take seconds, and ``rade --help`` must not wait for them."""
    if name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
        globals()[name] = found  # importing rade.compare puts the module here; the name means the function
        return found
    if name in _MODULES:
        return import_module(f"rade.{name}")
    raise AttributeError(f"module 'rade' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
