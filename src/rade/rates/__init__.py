"""Rates that adapt: the variance of the logits, the regulariser, and the rules that move p and q."""

from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass, Regulariser, regulariser
from rade.rates.rules import Constant, GradNorm, Logits, NoiseRatio, Rule, Seen
from rade.rates.state import RateState
from rade.rates.variance import LogitMessages, LogitVariance, pooled_variance, variance

__all__ = [
    "CleanPass",
    "Constant",
    "GradNorm",
    "Labelled",
    "LogitMessages",
    "LogitVariance",
    "Logits",
    "NoiseRatio",
    "RateState",
    "Readout",
    "Regulariser",
    "Rule",
    "Seen",
    "pooled_variance",
    "regulariser",
    "variance",
]
