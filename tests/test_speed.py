"""`benchmarks/speed.py` runs, and its measurements mean what they say; speed itself is never a test."""

import json
import sys

import pytest
from benchmarks import speed


def test_what_is_measured_in_this_process(monkeypatch, capsys):
    names = ["inference", "sampling", "neighbors", "scale"]
    monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--json", *names])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    speed.main()
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["benchmark"] for row in rows} == set(names)
    assert all(row["seconds"] > 0 for row in rows)
    monkeypatch.setattr(sys, "argv", ["speed.py", "flying"])
    with pytest.raises(SystemExit, match="2"):
        speed.main()
    assert "unknown: flying; there are wrapped, epoch" in capsys.readouterr().err
