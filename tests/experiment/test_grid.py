"""`rade reproduce` and `rade results` as a user types them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from command_line import assert_refused
from rade.experiment import failures
from rade.experiment.jobs import Job
from rade.experiment.store import Store
from rade.train.lock import holding
from rade.train.settings import resolve

DROP = {"timing", "commit", "dirty"}


def stored(folder):
    """Rows by key without what may differ, after a look for damage."""
    rows, problems = Store(folder).rows()
    assert problems == []
    return {row.key: row.model_dump(exclude=DROP) for row in rows}


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}


def test_a_grid_is_planned_run_and_not_run_again(rade, table, tmp_path, monkeypatch):
    """One poisoned row among three: the others are done once, and the exit code tells."""
    store = tmp_path / "results"
    for name in ("PATIENCE", "START"):
        monkeypatch.setattr(f"rade.experiment.pilots.{name}", 600.0)  # however busy the machine
    code, out, err = rade("reproduce", table(), "--dry-run", "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert [(cell["row"], cell["runs"], cell["missing"]) for cell in plan["cells"]] == [
        ("Plain", 2, 2),
        ("DropEdge, tuned", 4, 4),
    ]
    assert plan["seconds_left"] > 0
    assert not store.exists()
    timed = json.loads((tmp_path / ".results.pilots.json").read_text())["pilots"]
    assert [one["settings"]["method"] for one in timed] == ["none"]  # stands for DropEdge, too
    monkeypatch.setattr("rade.experiment.pilots.START", -1.0)  # no second pilot, since the first is remembered

    code, out, err = rade("reproduce", table(poison=True), "--seeds", 2)
    assert (code, err) == (1, "")
    assert "6 runs done, 2 failed, 0 left" in out
    assert out.count("loss became nan") == 4  # when it happens, and at the end
    assert len(stored(store)) == 6
    failed = [json.loads(path.read_text()) for path in sorted((store / "failures").iterdir())]
    assert [one["run"] for one in sorted(failed, key=lambda one: one["run"])] == [0, 1]
    assert all("loss became nan" in one["reason"] and "--set lr=1e+30" in one["command"] for one in failed)
    assert {key for cell in plan["cells"] for key in cell["keys"]} == set(stored(store))
    assert stored(store)[plan["cells"][0]["keys"][0]]["command"] == (
        "rade train --dataset csbm --backbone gcn --method none --protocol released --run 0 --seed 0 --threads 1 "
        "--set hidden=4 --set epochs=4"
    )
    assert not list((store / ".work").iterdir())

    before = times(store)
    code, out, err = rade("reproduce", table())
    assert (code, err) == (0, "")
    assert "nothing to do, 6 in all" in out
    assert "0 runs done, 0 failed, 0 left" in out

    # Any but those listed below; which one comes first hangs on the names, hence on every option of the data.
    torn = next(name for name in before if stored(store)[name.removesuffix(".json")]["settings"]["method"] != "none")
    (store / torn).write_text("{")
    code, out, err = rade("reproduce", table(), "--budget", 0)
    assert code == 0
    assert err == f"skipped: results/{torn} is torn or no JSON\n"
    assert "1 run to do" in out
    assert "0 runs done, 0 failed, 1 left" in out
    assert {name: time for name, time in times(store).items() if name != torn} == {
        name: time for name, time in before.items() if name != torn
    }

    code, out, _ = rade("results", "--runs", "--method", "none")
    assert (code, out.count("csbm")) == (0, 2)

    code, out, _ = rade("report", "results", "--tables", table(), "--format", "md,tex")
    assert code == 0
    assert "cells in 1 table have runs" in out
    assert not any(
        "below it the paper" in (tmp_path / "report" / name).read_text("utf-8") for name in ("results.md", "tables.tex")
    )


@pytest.mark.slow
def test_a_grid_that_is_stopped_and_killed_ends_with_the_same_rows(rade, table, tmp_path):
    """Ctrl-C, SIGTERM, then kill −9, each in the midst of a run; no run twice, no file torn, nothing left behind."""
    options = ("reproduce", table(), "--methods", "none", "--set", "epochs=150", "--set", "patience=0")
    options += ("--checkpoint-every", "3", "--workers", "1", "--seeds", "2")
    store = tmp_path / "hurt"

    def start():
        command = [sys.executable, "-m", "rade", *options, "--store", str(store)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes)

    def checkpoint_after(moment):
        """Wait for a checkpoint younger than this."""
        for _ in range(12000):
            found = store.glob(".work/*/checkpoint.pt")
            if any(_modified(path) > moment for path in found):
                return
            time.sleep(0.01)
        raise AssertionError("no checkpoint appeared")

    moment = 0
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = start()
        checkpoint_after(moment)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err.count("\n")) == (code, 1)
        assert err == "stopped, with the state of every run saved; the same command continues\n"
        moment = time.time_ns()
    process = start()
    checkpoint_after(moment)
    process.kill()
    process.communicate()
    finished = times(store)
    assert rade(*options, "--store", "hurt")[0] == 0
    assert rade(*options, "--store", "calm")[0] == 0
    assert len(stored(store)) == 2
    assert stored(store) == stored(tmp_path / "calm")
    assert finished.items() <= times(store).items()
    assert not list((store / ".work").iterdir())


def _modified(path):
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("reproduce nowhere", "unknown table 'nowhere'"),
        ("reproduce nowhere.toml", "cannot read nowhere.toml: No such file"),
        ("reproduce broken.toml", "broken.toml is not valid TOML"),
        ("reproduce tiny.toml --datasets coar", "unknown data set 'coar'; did you mean 'cora'?"),
        ("reproduce tiny.toml --datasets cora", "unknown data set of these tables 'cora'"),
        ("reproduce tiny.toml --methods rade", "unknown method of these tables 'rade'"),
        ("reproduce tiny.toml --set epochs=0", "epochs must be greater than or equal to 1, got 0"),
        ("reproduce tiny.toml --set hidden", "--set expects NAME=VALUE, got 'hidden'"),
        ("reproduce tiny.toml --set threads=2", "--set threads has no use here; it is --threads that decides it"),
        ("reproduce tiny.toml --protocol text", "unknown protocol 'text'"),
        ("reproduce tiny.toml --shard 9/8", "a shard i/n needs 1 ≤ i ≤ n, got 9/8"),
        ("reproduce tiny.toml --shard two", "--shard expects i/n such as 3/8, got 'two'"),
        ("reproduce tiny.toml --seeds 0", "seeds must be at least 1, got 0"),
        ("reproduce tiny.toml --workers 0", "Invalid value for '--workers'"),
        ("reproduce tiny.toml --store file/store", "cannot write to file/store: Not a directory; choose another"),
        ("reproduce tiny.toml --scheduler tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("reproduce", "Missing argument"),
        ("results nowhere", "there is no store at nowhere; rade reproduce makes one"),
        ("results one two", "one store at a time, got one, two; merge OTHER… adds others to it"),
        ("results merge", "merge needs at least one folder"),
        ("results merge nowhere", "there is no folder nowhere to merge"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(arguments, sentence, rade, table, tmp_path, monkeypatch):
    if "--scheduler" in arguments:
        pytest.importorskip("distributed")
    monkeypatch.setattr("rade.experiment.cluster._PATIENCE", 0.5)
    table()
    (tmp_path / "file").write_text("")
    (tmp_path / "broken.toml").write_text("= =")
    assert_refused(rade, arguments, sentence)


def test_data_that_are_not_there_are_told(rade, table, tmp_path):
    path = tmp_path / table()
    path.write_text(path.read_text().replace('["csbm"]', '["cora"]'))
    code, _, err = rade("reproduce", "tiny.toml", "--dry-run", "--data-root", "empty")
    assert code == 2
    assert "Cora needs" in err


def test_results_are_listed_exported_and_merged(rade, row, tmp_path):
    store = Store(tmp_path / "results")
    for number in range(3):
        store.put(row(number, settings={"method": ("none", "rade-of")[number % 2]}))
    (tmp_path / "results" / "notes.json").write_text("[]")
    code, out, err = rade("results")
    assert code == 0
    assert err == "skipped: results/notes.json is not a run of rade: it must be an object, got []\n"
    assert "25.10 ± 0.14" in out  # of 25.0 and 25.2, in %
    assert "3 runs" in out
    code, out, _ = rade("results", "results", "--method", "rade-of", "--csv", "runs.csv")
    assert (code, out) == (0, "1 run in runs.csv\n")
    (line,) = csv.DictReader((tmp_path / "runs.csv").read_text().splitlines())
    assert (line["dataset"], line["method"], line["test"], line["run"]) == ("cora", "rade-of", "0.251", "1")
    found = json.loads(rade("results", "--method", "rade-of", "--json")[1])
    assert found == [row(1, settings={"method": "rade-of"}).model_dump()]
    assert json.loads(rade("results", "--dataset", "Cora", "--method", "none", "--json")[1])[0]["run"] in (0, 2)
    (tmp_path / "results" / "notes.json").unlink()
    assert rade("results", "other", "merge", "results")[1] == "results: 3 new runs in other\n"
    assert rade("results", "other", "merge", "results")[1] == "results: 0 new runs in other\n"
    merged = json.loads(rade("results", "other", "merge", "results", "--json")[1])
    assert merged == {"store": "other", "merged": [{"folder": "results", "new": 0}]}


@pytest.mark.parametrize("options", [(), ("--runs",)])
def test_settings_that_are_not_the_protocols_are_told(options, rade, row, tmp_path):
    """A run of ten epochs must not look like a whole one, also where it is alone in the list."""
    command = "rade train --dataset cora --set epochs=10 --set hidden=8"
    Store(tmp_path / "results").put(row(settings={"epochs": 10, "hidden": 8, "layers": 2}, command=command))
    code, out, _ = rade("results", *options)
    assert code == 0
    assert "epochs 10, hidden 8" in out
    assert "layers" not in out


def test_a_dry_run_takes_no_longer_than_its_patience(rade, table, tmp_path, monkeypatch):
    """Nothing could be timed: the plan is there all the same, and says that it is a guess."""
    monkeypatch.setattr("rade.experiment.pilots.START", -1.0)
    code, out, _ = rade("reproduce", table(), "--dry-run")
    assert code == 0
    assert "timing a few epochs of 1 kind of runs" in out
    assert "6 runs to do, 6 in all; ~ " in out
    assert "~ is guessed from sizes of data and model" in out
    assert rade("reproduce", table(), "--dry-run", "--store", "not/there/results")[0] == 0
    assert not (tmp_path / "not").exists()  # a plan makes no folders
    for name in ("PATIENCE", "START"):
        monkeypatch.setattr(f"rade.experiment.pilots.{name}", 600.0)
    assert json.loads(rade("reproduce", table(), "--methods", "none", "--dry-run", "--json")[1])["rough"] is False


def test_a_run_that_another_grid_is_doing_is_left_to_it(rade, table, tmp_path):
    plan = json.loads(rade("reproduce", table(), "--methods", "none", "--dry-run", "--json")[1])
    first, second = plan["cells"][0]["keys"]
    with holding(tmp_path / "results" / ".work" / f"{first}.lock"):
        code, out, err = rade("reproduce", table(), "--methods", "none")
        assert (code, err) == (0, "")
        assert "1 run done, 0 failed, 1 left" in out
        assert f"1 run left to another grid on this store: process {os.getpid()} on " in out
        assert set(stored(tmp_path / "results")) == {second}
    code, out, _ = rade("reproduce", table(), "--methods", "none", "--json")
    assert (code, json.loads(out)["elsewhere"], json.loads(out)["finished"]) == (0, {}, 1)
    assert set(stored(tmp_path / "results")) == {first, second}


def test_a_run_that_finishes_after_all_is_no_failure(tmp_path):
    store = Store(tmp_path).open()
    settings = resolve("csbm", "gcn", "none")
    job = Job("0" * 32, settings, 0)
    failures.note(store, job, "the machine was tired", threads=1)
    assert json.loads(failures.path_of(store, job.key).read_text())["reason"] == "the machine was tired"
    assert store.rows().rows == []
    failures.forget(store, job.key)
    failures.forget(store, job.key)
    assert not failures.path_of(store, job.key).exists()
