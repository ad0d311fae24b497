"""`RADE(model)`: any PyG model on random views."""

from rade.wrapper.conversion import convert, revert
from rade.wrapper.explain import LayerReport
from rade.wrapper.inference import Denoised, Ensemble, Expected, Inference
from rade.wrapper.module import RADE

__all__ = ["RADE", "Denoised", "Ensemble", "Expected", "Inference", "LayerReport", "convert", "revert"]
