"""`rade bench` runs and its measurements mean what they say; speed itself is never a test."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.datasets import Amazon, Coauthor, Planetoid

from rade.bench import BENCHMARKS, Row, Setting
from rade.bench.authors import PLACES, Checkout, lend
from rade.bench.cases import Case
from rade.bench.graphs import random_graph
from rade.bench.measure import Contestant, interleaved, peak_bytes
from rade.bench.paper import published
from rade.bench.parallel import parallel
from rade.cli import main
from rade.commands.bench import baseline, line, slower
from rade.errors import RadeError


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


def test_folders_are_tried_before_anything_is_measured(capsys, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = rade(capsys, "bench", "scale", "--quick", "--data-root", str(tmp_path / "missing"))
    assert (code, out) == (2, "")
    assert "missing is no folder" in err
    code, out, err = rade(capsys, "bench", "scale", "--quick", "--picture", str(tmp_path / "file" / "goals.png"))
    assert code not in (0, None)
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_data_sets_of_other_names_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "rate-step", "--quick", "--data", "csbm,kora"])
    assert stopped.value.code == 2
    assert "no benchmark runs on kora; there are cora, pubmed" in " ".join(capsys.readouterr().err.split())


SCRIPT = """
import argparse, time
parser = argparse.ArgumentParser()
for name in ("dataset", "gnn", "data_dir", "epochs", "runs", "patience"):
    parser.add_argument("--" + name)
parser.add_argument("--cpu", action="store_true")
given = parser.parse_args()
assert given.gnn == "gcn", "only gcn here"
open("result.csv", "w").close()  # like the authors' script, it leaves a file where it runs
time.sleep(0.05 * int(given.epochs))
"""


@pytest.fixture
def authors(tmp_path):
    """A folder that looks like a checkout of the authors' repository; its epochs take 50 ms."""
    script = tmp_path / "RADE" / "RADE_Node_Classification" / "full_batch" / "main.py"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    return tmp_path / "RADE"


def test_the_authors_scripts_are_timed_in_the_same_run(capsys, authors):
    code, out, err = rade(capsys, "bench", "epoch", "--quick", "--authors", str(authors))
    assert (code, err) == (0, "")
    assert "authors' RADE-OF, gcn on csbm" in out
    assert "x the authors' RADE-OF" in out
    assert [path.name for path in authors.rglob("*") if path.is_file()] == ["main.py"]


def test_what_the_runs_share_cancels_out(authors, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkout, "_run", lambda self, data, backbone, root, epochs: 30.0 + 0.5 * epochs)
    assert Checkout(authors).seconds_per_epoch("cora", "gcn", tmp_path, 20) == pytest.approx(0.5)


def test_a_failing_script_is_told_in_a_sentence(authors, tmp_path):
    with pytest.raises(RadeError, match="failed with gin on cora: AssertionError: only gcn here"):
        Checkout(authors).seconds_per_epoch("cora", "gin", tmp_path, 1)


def test_raw_files_are_lent_where_pyg_looks_for_them():
    sets = {"cora": (Planetoid, "Cora"), "pubmed": (Planetoid, "Pubmed"), "cs": (Coauthor, "CS")}
    sets |= {"physics": (Coauthor, "Physics"), "computer": (Amazon, "computers")}
    for name, (kind, title) in sets.items():
        asked = SimpleNamespace(root=kind.__name__, name=title, split="public")
        assert Path(kind.raw_dir.fget(asked)) == Path(PLACES[name], "raw"), name
    assert sets.keys() == PLACES.keys()


def test_a_folder_that_is_no_checkout_is_refused(capsys, tmp_path):
    code, _, err = rade(capsys, "bench", "epoch", "--quick", "--authors", str(tmp_path))
    assert code == 2
    assert "is no checkout of the authors' scripts: it has no RADE_Node_Classification/full_batch/main.py" in err


def test_raw_files_are_lent_and_nothing_is_written_beside_them(tmp_path):
    raw = tmp_path / "data" / "Cora" / "raw"
    raw.mkdir(parents=True)
    (raw / "ind.cora.x").write_text("x")
    lend("cora", tmp_path / "root", str(tmp_path / "data"))
    assert (tmp_path / "root" / "Planetoid" / "Cora" / "raw" / "ind.cora.x").read_text() == "x"
    assert not (tmp_path / "root" / "Planetoid" / "Cora").is_symlink()


def test_the_papers_ratios_stand_beside_ours():
    """Table of run times: GCN on Cora takes 0.018 s plain, 0.103 s with RADE-OF."""
    assert published("rade-of", Case("cora", "gcn", 2.0)) == {"x plain in the paper": pytest.approx(0.103 / 0.018)}
    assert published("rade-of", Case("cora", "gin", 2.0)) == {}
    assert published("rade-of", Case("csbm", "gcn", 2.0)) == {}


def test_processes_that_cannot_run_are_told_in_a_sentence(monkeypatch):
    monkeypatch.setattr(sys.modules["rade.bench.parallel"], "WORKER", "no_such_worker")
    with pytest.raises(RadeError, match=r"1 process could not be run: .*no_such_worker"):
        list(parallel(Setting(quick=True)))


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
