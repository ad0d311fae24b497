"""`rade bench` runs and its measurements mean what they say; speed itself is never a test."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import pytest
import torch

from rade.bench import BENCHMARKS, Row, Setting
from rade.bench.graphs import random_graph
from rade.bench.measure import Contestant, interleaved, peak_bytes
from rade.cli import main
from rade.commands.bench import baseline, line, slower


def rade(capsys, *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def test_a_quick_run_is_one_json_document(capsys):
    code, out, err = rade(capsys, "bench", "--quick", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert {row["benchmark"] for row in document["rows"]} == set(BENCHMARKS)
    assert all(row["seconds"] > 0 for row in document["rows"])
    assert document["quick"] is True


def test_a_quick_run_in_plain_lines(capsys):
    code, out, err = rade(capsys, "bench", "sampling", "--quick", "--seed", "3")
    assert (code, err) == (0, "")
    assert "PyG negative_sampling" in out
    assert "x PyG negative_sampling" in out
    assert "target" not in out  # toy sizes get no verdict
    assert "growth" not in out


def test_a_verdict_is_given_at_full_size():
    row = Row("sampling", "pairs", 0.2, "PyG", 0.05, 0.1)
    assert line(row, verdict=True) == "sampling: pairs: 0.2 s, 0.05 x PyG (target 0.1: met)"
    assert line(replace(row, ratio=0.2), verdict=True).endswith("missed)")


def test_unknown_benchmarks_are_refused_in_a_sentence(capsys):
    code, _, err = rade(capsys, "bench", "flying", "--quick")
    assert code == 2
    assert "no benchmark is called flying; there are sampling" in err


def test_data_sets_of_other_names_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "rate-step", "--quick", "--data", "csbm,kora"])
    assert stopped.value.code == 2
    assert "no benchmark runs on kora; there are cora, pubmed" in " ".join(capsys.readouterr().err.split())


def test_contestants_take_turns_and_preparation_is_free():
    order = []
    contestants = {
        "slow": Contestant(lambda _: order.append("slow") or time.sleep(0.02)),
        "fast": Contestant(lambda given: order.append(given), lambda: time.sleep(0.03) or "fast"),
    }
    seconds = interleaved(contestants, repeats=2)
    assert order == ["slow", "fast"] * 3
    assert seconds["slow"] >= 0.02 > 0.01 > seconds["fast"]


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator's records are compared byte by byte")
def test_peak_memory_counts_what_is_held_at_once():
    def run() -> None:
        for _ in range(3):
            torch.zeros(1_000_000)  # freed each time
        kept = [torch.zeros(500_000) for _ in range(4)]
        del kept

    assert peak_bytes(run) == pytest.approx(8_000_000, rel=0.01)


def test_random_graphs_have_their_size():
    graph = random_graph(100, 300, Setting().generator())
    assert (graph.num_nodes, graph.num_edges) == (100, 300)


def test_a_ratio_that_grew_is_flagged_and_others_are_not(tmp_path):
    row = Row("epoch", "plain", 0.2, "PyG", 0.10, 0.2)
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"rows": [vars(row)]}))
    before = baseline(path)
    assert slower(replace(row, ratio=0.11), before) == ""
    assert slower(replace(row, ratio=0.13), before) == " -- REGRESSION: 0.1 x before"
    assert slower(replace(row, name="new", ratio=9.0), before) == ""


def test_a_run_is_compared_and_drawn(capsys, tmp_path):
    before = tmp_path / "before.json"
    rows = [vars(Row("inference", name, 1.0, "plain", 1e-6)) for name in ("RADE-OF", "RADE-OFS")]
    before.write_text(json.dumps({"rows": rows}))
    picture = tmp_path / "ratios.png"
    code, out, _ = rade(capsys, "bench", "inference", "--quick", "--compare", str(before), "--picture", str(picture))
    assert code == 1
    assert out.count("REGRESSION") == 2
    assert picture.stat().st_size > 1000


def test_a_baseline_that_is_none_is_refused_in_a_sentence(capsys, tmp_path):
    (tmp_path / "before.json").write_text("{}")
    code, _, err = rade(capsys, "bench", "inference", "--quick", "--compare", str(tmp_path / "before.json"))
    assert code == 2
    assert "is no output of" in err
