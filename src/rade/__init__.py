"""RADE: Random Add-Drop Edge for graph neural networks (regularisation and long-range paths, no rates to tune)."""

from rade.graph import Graph
from rade.view import Correction, Law, MeanView, Rates, Variant, View, sample_view

__version__ = "0.1.0"

__all__ = ["Correction", "Graph", "Law", "MeanView", "Rates", "Variant", "View", "sample_view"]
