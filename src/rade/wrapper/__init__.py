"""`RADE(model)`: any PyG model on random views."""

from rade.wrapper.conversion import convert, register, revert
from rade.wrapper.explain import LayerReport
from rade.wrapper.inference import Denoised, Ensemble, Expected, Inference
from rade.wrapper.inspection import Check, check
from rade.wrapper.module import RADE
from rade.wrapper.uncertainty import Uncertainty

__all__ = [
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
]
