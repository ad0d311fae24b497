"""The local pool: processes that die, jobs that fail, and requests to stop."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from experiment.actions import Fail, Kill, Wait
from rade.experiment.jobs import Job
from rade.experiment.pool import LocalPool
from rade.train import resolve
from rade.train.checkpoint import never


@pytest.fixture(scope="module")
def jobs():
    settings = resolve("csbm", "gcn", "none", epochs=1)
    return [Job(f"{run:032x}", settings, run) for run in range(6)]


@pytest.fixture
def pool():
    """Builds pools, and leaves none of their processes behind."""
    pools = []

    def build(*arguments, **options):
        pools.append(LocalPool(*arguments, **options))
        return pools[-1]

    yield build
    for made in pools:
        made.close()


def ends(events, kind):
    return {event.job.run: event.value for event in events if event.kind == kind}


def test_a_job_whose_process_was_killed_is_done_again(jobs, pool, tmp_path):
    events = list(pool(2).run(iter(jobs), Kill(tmp_path, run=2, deaths=1), never))
    assert ends(events, "done") == {run: run for run in range(6)}
    assert "its process died by signal 9" in ends(events, "lost")[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "1-0", "2-0", "2-1", "3-0", "4-0", "5-0"]


def test_a_job_that_kills_every_process_is_given_up_and_the_others_are_done_once(jobs, pool, tmp_path):
    events = list(pool(2, tries=2).run(iter(jobs), Kill(tmp_path, run=1, deaths=9), never))
    assert ends(events, "failed") == {1: "its process died 2 times, the last time by signal 9"}
    assert ends(events, "done") == {run: run for run in range(6) if run != 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "1-0", "1-1", "2-0", "3-0", "4-0", "5-0"]


def test_errors_are_one_line_each_and_stop_nobody(jobs, pool):
    events = list(pool(1).run(iter(jobs), Fail(), never))
    failed = ends(events, "failed")
    assert failed[1] == "it cannot be done"
    assert failed[2].startswith("ZeroDivisionError: by nothing (actions.py:")
    assert sorted(ends(events, "done")) == [0, 3, 4, 5]


def test_a_request_to_stop_reaches_those_under_way_and_starts_no_other(jobs, pool):
    others = set(psutil.Process().children(recursive=True))  # of tests that ran in this process before
    asked, events, two = [], [], pool(2)
    for event in two.run(iter(jobs), Wait(), lambda: bool(asked)):
        events.append(event)
        if len({event.job.run for event in events if event.kind == "epoch"}) == 2:
            asked.append(True)
    assert ends(events, "stopped") == {0: "saved", 1: "saved"}
    assert sorted(ends(events, "started")) == [0, 1]
    two.close()
    left = set(psutil.Process().children(recursive=True)) - others
    assert not any("spawn_main" in " ".join(child.cmdline()) for child in left)


ORPHAN = """
import sys
from rade.experiment.jobs import Job
from rade.experiment.pool import LocalPool
from rade.train import resolve
from rade.train.checkpoint import never
from experiment.actions import Wait
if __name__ == "__main__":
    job = Job("0" * 32, resolve("csbm", "gcn", "none", epochs=1), 0)
    for event in LocalPool(1).run(iter([job]), Wait(), never):
        print(event.kind, flush=True)
"""


def test_processes_do_not_outlive_a_killed_parent(tmp_path):
    """An orphan would go on with its run beside the grid that is started next."""
    (tmp_path / "grid.py").write_text(ORPHAN)
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}", "OMP_NUM_THREADS": "1", "PATH": ""}
    command = [sys.executable, str(tmp_path / "grid.py")]
    parent = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert [parent.stdout.readline().strip() for _ in range(2)] == ["started", "epoch"]
    children = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.communicate()
    assert len(children) >= 1
    for _ in range(1000):
        if not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
            return
        time.sleep(0.01)
    raise AssertionError(children)
