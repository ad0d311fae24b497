"""Random views of a graph: rates, the law they follow, and drawing one."""

from rade.view.view import Correction, FreshViews, Law, MeanView, Rates, Variant, View, sample_view

__all__ = ["Correction", "FreshViews", "Law", "MeanView", "Rates", "Variant", "View", "sample_view"]
