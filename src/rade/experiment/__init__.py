"""Experiments: the paper's tables as data, and those beyond it; importing this package does not import torch.

from rade import experiment

table = experiment.load("node-gcn")
for cell in experiment.cells(table):
    print(cell, cell.published)
"""

from rade.experiment.table import Cell, Experiment, Published, Row, TableError, cells, load, names, read

__all__ = ["Cell", "Experiment", "Published", "Row", "TableError", "cells", "load", "names", "read"]
