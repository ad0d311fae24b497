"""Training in processes of its own: killed, interrupted, and shared by two."""

import json
import random
import subprocess
import sys
import time

import pytest

from command_line import ENVIRONMENT, start, wait_for

RUN = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "60", "--patience", "0", "--hidden", "8")
RUN += ("--checkpoint-every", "5")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rade"]


def torchrun(*arguments, cwd):
    command = [*TORCHRUN, *arguments]
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def result(folder):
    """A result file without what may differ: the times, and the commit, which an edit changes."""
    content = json.loads((folder / "run-0/result.json").read_text())
    return {name: value for name, value in content.items() if name not in ("timing", "commit", "dirty")}


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_file(rade, tmp_path):
    """kill −9 at a random moment after the first checkpoint; what is left is never half a file."""
    process = start(*RUN, "--out", "killed", cwd=tmp_path)
    wait_for(tmp_path / "killed/rade-of/run-0/checkpoint.pt", process)
    time.sleep(random.Random(0).uniform(0, 0.3))
    process.kill()
    process.communicate()
    assert not (tmp_path / "killed/rade-of/run-0/result.json").exists()
    assert rade(*RUN, "--out", "killed", "--resume")[0] == 0
    assert rade(*RUN, "--out", "whole")[0] == 0
    assert result(tmp_path / "killed/rade-of") == result(tmp_path / "whole/rade-of")


@pytest.mark.slow
def test_two_processes_have_the_numbers_of_one(rade, tmp_path):
    """1,200 graphs in batches of 63 leave parts of 32, 31 and, at the end, 2 and 1; only the order of sums differs."""
    options = "train --dataset far-pair --method none --runs 1 --epochs 2 --batch-size 63 --layers 2 --hidden 16 --json"
    options = options.split()
    document = json.loads(torchrun(*options, "--out", "shared", cwd=tmp_path))
    assert len(document["runs"]) == 1  # one document: the first process speaks alone
    assert rade(*options, "--out", "alone")[0] == 0
    shared, alone = (result(tmp_path / name / "none")["history"] for name in ("shared", "alone"))
    assert shared["loss"] == pytest.approx(alone["loss"], rel=1e-4)
    assert shared["val_loss"] == pytest.approx(alone["val_loss"], rel=1e-3)
