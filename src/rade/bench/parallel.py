"""One and two processes under torchrun that share every batch: what data-parallel training gains on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rade.bench.measure import Row, Setting
from rade.errors import RadeError

WORKER = "rade.bench.worker"
PROCESSES = (1, 2)


def parallel(setting: Setting) -> Iterator[Row]:
    """RADE-OF epochs of sampled neighborhoods on ogbn-arxiv's citations (a toy if quick), one thread per process."""
    alone = None
    for count in PROCESSES:
        seconds = _launched(setting, count)
        ratio = None if alone is None else seconds / alone
        alone = seconds if alone is None else alone
        yield Row("parallel", _named(count), seconds, "" if ratio is None else _named(1), ratio)


def _launched(setting: Setting, count: int) -> float:
    with tempfile.TemporaryDirectory(prefix="rade-bench-") as folder:
        order = {"quick": setting.quick, "seed": setting.seed, "data_root": setting.data_root, "out": folder}
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m"]
        command = [sys.executable, "-m", *(torchrun if count > 1 else []), WORKER, json.dumps(order)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = Path(folder) / "seconds.json"
        if done.returncode != 0 or not found.is_file():
            lines = ["it said nothing", *done.stderr.strip().splitlines()]
            reason = next((line for line in lines if "Error" in line), lines[-1])  # torchrun's own words come last
            raise RadeError(f"{_named(count)} could not be run: {reason.strip()}")
        return float(json.loads(found.read_text("utf-8")))


def _named(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
