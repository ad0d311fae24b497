"""Records, tables and a cluster small enough for seconds."""

import pytest
from tests.report.synthetic import row

from rade.train.record import RunRecord

TABLE = """
title = "Tiny"
seeds = 2
backbones = ["gcn"]
datasets = ["csbm"]

[[rows]]
name = "Plain"
method = "none"
settings = { hidden = { csbm = 4 }, epochs = 4 }

[[rows]]
name = "DropEdge, tuned"
method = "drop-edge"
settings = { hidden = 4, epochs = 4 }
search = { rate = [0.2, 0.5] }
"""
# A learning rate so large that the loss is no number after a step.
POISON = """
[[rows]]
name = "Poisoned"
method = "none"
settings = { hidden = 4, epochs = 4, lr = 1e30 }
"""


@pytest.fixture
def record():
    """Builds valid records by number."""

    def build(number=0, settings=None, **changes):
        odd = {"val": 0.5, "quality": {"log_loss": 1 / 3}, "command": 'rade train --set "x=1,\n2"'}
        odd["history"] = {"loss": [5e-324, 1.7e308], "val": [0.30000000000000004, 0.4]}
        values = row(0.25 + number / 1000, run=number, done=2, **(settings or {}))
        return RunRecord.model_validate(values | odd | changes)

    return build


@pytest.fixture
def table(tmp_path):
    """A table of two cells as a file; `poison` adds a row that cannot be trained."""

    def write(poison=False):
        (tmp_path / "tiny.toml").write_text(TABLE + (POISON if poison else ""))
        return "tiny.toml"

    return write


@pytest.fixture(scope="session")
def scheduler():
    """The address of a Dask scheduler with one worker, which all tests share."""
    from distributed import LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with LocalCluster(**options, silence_logs=60, host="127.0.0.1") as cluster:
        yield cluster.scheduler_address
