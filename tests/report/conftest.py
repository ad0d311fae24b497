"""A table in place of the packaged ones, and the command line without torch."""

import sys
from types import ModuleType

import pytest
from tests.report.synthetic import MAIN

from command_line import caller
from rade.errors import RadeError


@pytest.fixture
def tables(monkeypatch):
    """`rade.experiment.table` with one table, called main."""
    module = ModuleType("rade.experiment.table")

    def load(name):
        if name != MAIN.name:
            raise RadeError(f"unknown table '{name}'. Known: main")
        return MAIN

    module.names, module.load, module.find = lambda: (MAIN.name,), load, load
    monkeypatch.setitem(sys.modules, "rade.experiment", ModuleType("rade.experiment"))
    monkeypatch.setitem(sys.modules, "rade.experiment.table", module)


@pytest.fixture
def rade(capsys, tmp_path, monkeypatch, tables):
    """Call `rade ARGUMENTS` in an empty folder; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    return caller(capsys)
