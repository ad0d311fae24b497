"""The grid on a Dask cluster of two local workers, one of which is killed, and a run that kills whoever tries it."""

import os
import signal
import time

import pytest

from rade.experiment.cluster import Cluster
from rade.experiment.jobs import Job
from rade.train import RunError, resolve
from rade.train.checkpoint import never

distributed = pytest.importorskip("distributed", reason="the extra `cluster` (Dask distributed) is not installed")

from experiment.actions import Kill, Slow  # noqa: E402


@pytest.fixture
def cluster():
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, host="127.0.0.1"
        ) as made,
    ):
        engine = Cluster(made.scheduler_address)
        yield engine
        engine.close()


def jobs(count):
    settings = resolve("csbm", "gcn", "none", epochs=1)
    return [Job(f"{run:032x}", settings, run) for run in range(count)]


def ends(events, kind):
    return [event.job.run for event in events if event.kind == kind]


def test_lost_workers_cost_nothing_and_a_poisoned_run_is_given_up(cluster, tmp_path):
    events, killed = [], []
    for event in cluster.run(iter(jobs(4)), Slow(tmp_path, 1.0), never):
        events.append(event)
        if not killed:
            killed += _kill_one(tmp_path)
    assert killed
    assert sorted(ends(events, "done")) == [0, 1, 2, 3]  # each once
    (tmp_path / "poison").mkdir()
    events = list(cluster.run(iter(jobs(3)), Kill(tmp_path / "poison", run=1, deaths=99), never))
    assert sorted(ends(events, "done")) == [0, 2]
    assert ends(events, "failed") == [1]
    assert "every worker that tried it died" in next(event.value for event in events if event.kind == "failed")


def _kill_one(folder):
    """Kill a worker in the midst of a run."""
    for _ in range(6000):
        begun = {path.name.removeprefix("begun-") for path in folder.glob("begun-*")}
        ended = {path.name.removeprefix("ended-") for path in folder.glob("ended-*")}
        for name in begun - ended:
            os.kill(int(name.rpartition("-")[2]), signal.SIGKILL)
            return [name]
        time.sleep(0.01)
    raise AssertionError("no run has begun")


def test_a_scheduler_that_does_not_answer_is_a_sentence(monkeypatch):
    monkeypatch.setattr("rade.experiment.cluster._PATIENCE", 0.5)
    with pytest.raises(RunError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 .*start one with `dask sched"):
        Cluster("tcp://127.0.0.1:9")
    with pytest.raises(RunError, match=r"no Dask scheduler answers at nonsense://x"):
        Cluster("nonsense://x")
