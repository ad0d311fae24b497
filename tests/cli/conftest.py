"""Running the command line inside the test process."""

import pytest
import torch

from command_line import caller, end_all


@pytest.fixture
def rade(capsys, tmp_path, monkeypatch):
    """Call `rade ARGUMENTS` in an empty folder; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    torch.set_num_threads(1)
    return caller(capsys)


@pytest.fixture(autouse=True)
def _nothing_is_left_running():
    yield
    end_all()
