"""`benchmarks/speed.py` runs, and its measurements mean what they say; speed itself is never a test."""

import json
import sys
import time
from argparse import Namespace

import pytest
import torch
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


def test_two_versions_of_the_code_take_turns_in_processes_of_their_own(run):
    rows = run("wrapped", "--model", "gcn", "--against", str(speed.SOURCE))
    assert [row["against"] for row in rows] == ["", "PyG", "", f"RADE of {speed.SOURCE}"]
    assert all(row["ratio"] > 0 for row in rows if row["against"])


def test_contestants_take_turns_and_the_first_turn_warms_up():
    order = []
    runs = {"slow": lambda: order.append("slow") or time.sleep(0.02), "fast": lambda: order.append("fast")}
    seconds = speed.in_turns(runs, Namespace(repeats=2, wall=True))
    assert order == ["slow", "fast"] * 3
    assert seconds["slow"] >= 0.02 > 0.01 > seconds["fast"]


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator's records are compared byte by byte")
def test_peak_memory_counts_what_is_held_at_once():
    def allocate():
        for _ in range(3):
            torch.zeros(1_000_000)  # freed each time
        return [torch.zeros(500_000) for _ in range(4)]

    assert speed.peak_bytes(allocate) == pytest.approx(8_000_000, rel=0.01)
