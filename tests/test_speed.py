"""`benchmarks/speed.py` runs, and its measurements mean what they say; speed itself is never a test."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace

import pytest
import torch
from benchmarks import speed


def run(monkeypatch, capsys, *arguments: str) -> list[dict]:
    monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--json", *arguments])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    speed.main()
    return json.loads(capsys.readouterr().out)["rows"]


def test_what_is_measured_in_this_process(monkeypatch, capsys):
    names = ("inference", "sampling", "neighbors", "scale")
    rows = run(monkeypatch, capsys, *names)
    assert {row["benchmark"] for row in rows} == set(names)
    assert all(row["seconds"] > 0 for row in rows)


def test_two_versions_of_the_code_take_turns_in_processes_of_their_own(monkeypatch, capsys):
    rows = run(monkeypatch, capsys, "wrapped", "--model", "gcn", "--against", str(speed.SOURCE))
    assert [row["against"] for row in rows] == ["", "PyG", "", f"RADE of {speed.SOURCE}"]
    assert all(row["ratio"] > 0 for row in rows if row["against"])


def test_unknown_names_are_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, capsys, "flying")
    assert "unknown: flying; there are wrapped, epoch" in capsys.readouterr().err


def test_contestants_take_turns_and_the_first_turn_warms_up():
    order = []
    runs = {"slow": lambda: order.append("slow") or time.sleep(0.02), "fast": lambda: order.append("fast")}
    seconds = speed.in_turns(runs, Namespace(repeats=2, wall=True))
    assert order == ["slow", "fast"] * 3
    assert seconds["slow"] >= 0.02 > 0.01 > seconds["fast"]


def test_what_two_processes_share_cancels_out(tmp_path):
    code = "import sys, time; time.sleep(0.2 + 0.05 * int(sys.argv[1]))"
    asked = Namespace(wall=True, threads=1)
    found = speed.per_epoch(lambda n: [sys.executable, "-c", code, str(n)], 10, asked, str(tmp_path))
    assert found == pytest.approx(0.05, abs=0.02)
    with pytest.raises(SystemExit, match=r"failed: .*no such thing"):
        speed.per_epoch(lambda n: [sys.executable, "-c", "raise SystemExit('no such thing')"], 1, asked, str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator's records are compared byte by byte")
def test_peak_memory_counts_what_is_held_at_once():
    def allocate() -> None:
        for _ in range(3):
            torch.zeros(1_000_000)  # freed each time
        kept = [torch.zeros(500_000) for _ in range(4)]
        del kept

    assert speed.peak_bytes(allocate) == pytest.approx(8_000_000, rel=0.01)


def test_random_edges_are_simple_and_go_both_ways():
    edge_index = speed.random_edges(100, 300)
    assert edge_index.shape == (2, 600)
    assert torch.unique(edge_index, dim=1).shape[1] == 600
    assert bool((edge_index[0] != edge_index[1]).all())
