"""Training in processes of its own: killed, shared by two; signals; output that cannot be written."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from command_line import ENVIRONMENT, start, wait_for
from rade.commands.display import Display

RUN = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "100", "--patience", "0", "--hidden", "8")
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
    """kill −9 at a random moment after the first checkpoint; the lock of a killed process does not count."""
    process = start(*RUN, "--out", "killed", cwd=tmp_path)
    wait_for(tmp_path / "killed/rade-of/run-0/checkpoint.pt", process)
    code, _, err = rade(*RUN, "--out", "killed", "--overwrite")
    assert (code, err.split(";")[0]) == (2, "error: killed is in use by another process")
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_saves_the_run_and_has_its_code(number, code, rade, tmp_path, monkeypatch):
    monkeypatch.setattr(Display, "epoch", lambda self, progress: progress.epoch == 3 and signal.raise_signal(number))
    found, _, err = rade(*RUN, "--out", "out")
    assert found == code
    assert err.startswith("stopped after epoch 3, state saved in ")
    assert err.endswith("; the same command with --resume continues\n")
    assert os.listdir(tmp_path / "out/rade-of/run-0") == ["checkpoint.pt"]


def test_output_in_ascii_replaces_what_it_lacks(tmp_path):
    process = start("datasets", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.isascii()


def test_output_that_cannot_be_written_is_a_sentence(tmp_path):
    with open("/dev/full", "w") as full:
        process = start("datasets", "--json", cwd=tmp_path, stdout=full)
        _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (3, 1)
    assert "No space left on device" in err
