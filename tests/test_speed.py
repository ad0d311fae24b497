"""`benchmarks/speed.py` runs, and its measurements mean what they say; speed itself is never a test."""

import json
import sys

import pytest
from benchmarks import speed


@pytest.fixture
def run(monkeypatch, capsys):
    """Rows of a quick measurement."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--json", *arguments])
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setenv("PYTHONPATH", "")
        speed.main()
        return json.loads(capsys.readouterr().out)["rows"]

    return call


def test_what_is_measured_in_this_process(run, capsys):
    names = ("inference", "sampling", "neighbors", "scale")
    rows = run(*names)
    assert {row["benchmark"] for row in rows} == set(names)
    assert all(row["seconds"] > 0 for row in rows)
    with pytest.raises(SystemExit, match="2"):
        run("flying")
    assert "unknown: flying; there are wrapped, epoch" in capsys.readouterr().err
