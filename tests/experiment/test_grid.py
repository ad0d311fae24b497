"""The engine, and `rade reproduce` and `rade results` as a user types them."""

import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import psutil
import pytest

from rade.experiment.grid import run_all
from rade.experiment.store import Store, open_store


def stored(path):
    """Runs by key without what may differ."""
    return {one.key: one.model_dump(exclude={"timing", "commit", "dirty"}) for one in open_store(path).records()}


def test_a_killed_worker_costs_its_call_one_retry_and_nobody_else_anything(tmp_path):
    """2 dies once, 4 always, 5 raises; every attempt leaves a mark."""

    def act(number):
        attempts = len(list(tmp_path.glob(f"{number}-*")))
        (tmp_path / f"{number}-{attempts}").touch()
        if number == 4 or (number == 2 and attempts == 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 5:
            raise ZeroDivisionError("by\nnothing")
        return number**2

    found = {one.argument: one.failure if one.value is None else one.value for one in run_all(act, range(7), workers=2)}
    assert found.pop(4) == "every process that tried it died"
    assert found.pop(5).startswith("ZeroDivisionError: by nothing (test_grid.py:")
    assert found == {0: 0, 1: 1, 2: 4, 3: 9, 6: 36}
    marks = sorted(path.name for path in tmp_path.iterdir())
    assert marks == ["0-0", "1-0", "2-0", "2-1", "3-0", "4-0", "4-1", "5-0", "6-0"]


def test_a_request_to_stop_ends_what_a_scheduler_runs(scheduler):
    began = time.monotonic()
    assert list(run_all(time.sleep, [3], scheduler=scheduler, stop_asked=lambda: time.monotonic() > began + 0.5)) == []


def test_a_grid_is_planned_run_and_not_run_again(rade, table, scheduler, tmp_path):
    """One poisoned row among three: the others are done once, and the exit code tells."""
    code, out, err = rade("reproduce", table(), "--dry-run")
    assert (code, err) == (0, "")
    assert [line.split()[-2:] for line in out.splitlines()[1:3]] == [["2", "0"], ["4", "0"]]
    planned = [cell["runs"] for cell in json.loads(rade("reproduce", table(), "--dry-run", "--json")[1])["cells"]]
    assert os.listdir(tmp_path) == ["tiny.toml"]  # a plan makes no files
    command = ("reproduce", table(poison=True), "--scheduler", scheduler, "--seeds", 2)
    assert "0 runs done, 0 failed, 8 left" in rade(*command, "--budget", 0)[1]
    code, out, err = rade(*command)
    assert (code, err) == (1, "")
    assert "6 runs done, 2 failed, 0 left" in out
    assert out.count("loss became nan") == 4  # when it happens, and at the end
    runs = stored("results.sqlite")
    assert {key for cell in planned for key in cell} == set(runs)
    command = next(run["command"] for run in runs.values() if run["settings"]["method"] == "none" and run["run"] == 0)
    assert command.endswith("--run 0 --seed 0 --threads 1 --device cpu --set epochs=4 --set hidden=4")
    assert not (tmp_path / "results.sqlite.work").exists()

    code, out, err = rade("reproduce", table(), table())  # tables share runs
    assert (code, err) == (0, "")
    assert "nothing to do, 6 in all" in out
    assert rade("results", "results.sqlite", "export", "text")[:2] == (0, "6 runs in text\n")
    assert rade("reproduce", table(), "--store", "text")[0] == 0  # nothing to do there, either


def test_a_full_disk_is_the_machines_refusal_and_loses_nothing(rade, table, scheduler, monkeypatch):
    """SQLite meets the limit of pages in the midst of a write, as it would a full disk."""
    command, connect = ("reproduce", table(), "--methods", "none", "--scheduler", scheduler), sqlite3.connect
    assert rade(*command, "--seeds", 1)[0] == 0
    before = stored("results.sqlite")

    def limited(*arguments, **options):
        found = connect(*arguments, **options)
        found.execute(f"PRAGMA max_page_count = {os.path.getsize('results.sqlite') // 4096}")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", limited)
        code, _, err = rade(*command, "--set", "epochs=400", "--seeds", 2)
    assert (code, err.count("\n")) == (3, 1)
    assert "cannot use the store results.sqlite: database or disk is full; what it held" in err
    assert stored("results.sqlite") == before
    assert rade(*command)[0] == 0
    assert len(stored("results.sqlite")) == 2


LONG = ("--methods", "none", "--set", "epochs=150", "--set", "patience=0", "--checkpoint-every", "3", "--seeds", "2")


@pytest.mark.slow
def test_a_grid_that_is_stopped_and_killed_ends_with_the_same_runs(rade, start, table, scheduler, tmp_path):
    """Ctrl-C to the whole group, then kill −9, each in the midst of a run; no run twice, nothing left behind."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        moment = time.time_ns()
        process = start("-m", "rade", "reproduce", table(), *LONG, "--store", "hurt", start_new_session=True)
        _wait_for_a_checkpoint(tmp_path / "hurt.work", moment)
        children = psutil.Process(process.pid).children(recursive=True)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.kill()
        _, err = process.communicate(timeout=60)
        assert process.returncode == code
        if code == 130:
            assert err == "stopped; what is finished is in the store, and the same command continues\n"
        psutil.wait_procs(children, timeout=30)
        assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    for store in ("hurt", "calm"):
        assert rade("reproduce", table(), *LONG, "--store", store, "--scheduler", scheduler)[0] == 0
    assert len(stored("hurt")) == 2
    assert stored("hurt") == stored("calm")
    assert not (tmp_path / "hurt.work").exists()


def _wait_for_a_checkpoint(folder, moment):
    for _ in range(12000):
        try:
            if any(path.stat().st_mtime_ns > moment for path in folder.glob("*/checkpoint.pt")):
                return
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    raise AssertionError("no checkpoint appeared")


def test_results_are_listed_exported_and_merged(rade, record):
    Store("results.sqlite").merge(record(n, settings={"method": ("none", "rade-of")[n % 2]}) for n in range(3))
    code, out, err = rade("results")
    assert (code, err) == (0, "")
    assert "25.10 ± 0.14" in out  # of 25.0 and 25.2, in %
    found = json.loads(rade("results", "--method", "rade-of", "--json")[1])
    assert found == [record(1, settings={"method": "rade-of"}).model_dump()]
    assert rade("results", "export", "results")[1] == "3 runs in results\n"
    assert json.loads(rade("results", "export", "results", "--json")[1]) == {"folder": "results", "runs": 3}
    for origin, new in (("results", 3), ("results.sqlite", 0)):
        assert rade("results", "other", "merge", origin)[1] == f"{origin}: {new} new runs in other\n"
    merged = json.loads(rade("results", "other", "merge", "results", "--json")[1])
    assert merged == {"store": "other", "merged": {"results": 0}}
    os.remove("results.sqlite")
    assert "3 runs" in rade("results")[1]  # of the text form


def test_settings_that_are_not_the_protocols_are_told(rade, record):
    """A run of ten epochs must not look like a whole one, also where it is alone in the list."""
    command = "rade train --dataset cora --set epochs=10 --set hidden=8"
    Store("results.sqlite").put(record(settings={"epochs": 10, "hidden": 8, "layers": 2}, command=command))
    code, out, _ = rade("results")
    assert (code, "epochs=10, hidden=8" in out, "layers" in out) == (0, True, False)
    Store("deep").put(record(settings={"layers": 4}, command=f"{command} --layers 4"))
    assert "layers=4, epochs=10" in rade("results", "deep")[1]  # or the rows of a table that varies them look the same


STARTED = """
import sys, time
from rade.cli import main
for command in ("--help", "results", "report"):
    try: main([command])
    except SystemExit: print("torch" in sys.modules, time.process_time())
"""


def test_commands_that_need_no_torch_start_at_once(start, record, tmp_path):
    """The processor's time, of all so far: the machine may be busy. Half a second of grace for a slow one."""
    Store(tmp_path / "results.sqlite").merge(record(number) for number in range(3))
    out, err = start("-c", STARTED).communicate()
    lines = [line.split() for line in out.splitlines() if line.startswith(("True ", "False "))]
    assert [torch for torch, _ in lines] == ["False"] * 3, err
    assert all(float(took) < limit + 0.5 for (_, took), limit in zip(lines, (0.3, 1.0, 1.5)))
    assert Path(tmp_path / "report/report.html").exists()
