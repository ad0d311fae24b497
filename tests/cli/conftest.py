"""Running the command line inside the test process."""

import pytest
import torch

from rade.cli import main


@pytest.fixture
def rade(capsys, tmp_path, monkeypatch):
    """Call `rade ARGUMENTS` in an empty folder; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    torch.set_num_threads(1)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call
