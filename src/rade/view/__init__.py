"""Random views of a graph: rates, the law they follow, and drawing one."""

from rade.view.law import Correction, Law, Variant, Views
from rade.view.observed import Observed
from rade.view.rates import Rates
from rade.view.sampling import FreshViews, draw, sample, sample_view
from rade.view.trust import Trust
from rade.view.view import MeanView, View

__all__ = [
    "Correction",
    "FreshViews",
    "Law",
    "MeanView",
    "Observed",
    "Rates",
    "Trust",
    "Variant",
    "View",
    "Views",
    "draw",
    "sample",
    "sample_view",
]
