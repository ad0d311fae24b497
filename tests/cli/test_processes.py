"""Training in processes of its own: killed, interrupted, and shared by two."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
RUN = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "120", "--patience", "0", "--checkpoint-every", "10")


def start(*arguments, cwd):
    command = [sys.executable, "-m", "rade", *arguments]
    return subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(folder, method="rade-of", dataset="csbm"):
    """A result file without what may differ: the times, and the commit, which an edit changes."""
    content = json.loads((folder / f"runs/{dataset}-gcn" / method / "run-0/result.json").read_text())
    return {name: value for name, value in content.items() if name not in ("timing", "commit")}


def wait_for(path, process):
    """Wait until a file appears, at most a minute."""
    for _ in range(6000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The result of a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    process = start(*RUN, cwd=folder)
    assert process.wait(120) == 0, process.communicate()
    return result(folder)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_file(whole, tmp_path):
    """kill −9 at a random moment after the first checkpoint; what is left is never half a file."""
    process = start(*RUN, cwd=tmp_path)
    wait_for(tmp_path / "runs/csbm-gcn/rade-of/run-0/checkpoint.pt", process)
    time.sleep(random.Random(0).uniform(0, 0.3))
    process.kill()
    process.communicate()
    resumed = start(*RUN, "--resume", cwd=tmp_path)
    assert resumed.wait(120) == 0, resumed.communicate()
    assert result(tmp_path) == whole


@pytest.mark.slow
def test_ctrl_c_saves_says_how_to_go_on_and_leaves_with_130(whole, tmp_path):
    process = start(*RUN, cwd=tmp_path)
    wait_for(tmp_path / "runs/csbm-gcn/rade-of/run-0/checkpoint.pt", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("stopped after epoch ")
    assert err.endswith("; the same command with --resume continues\n")
    assert err.count("\n") == 1
    resumed = start(*RUN, "--resume", cwd=tmp_path)
    assert resumed.wait(120) == 0, resumed.communicate()
    assert result(tmp_path) == whole


def torchrun(*arguments, cwd):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rade"]
    done = subprocess.run([*command, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_two_processes_have_the_numbers_of_one(tmp_path):
    """1,200 graphs in batches of 63 leave parts of 32, 31 and, at the end, 2 and 1; only the order of sums differs."""
    options = (
        "train",
        "--dataset",
        "far-pair",
        "--method",
        "none",
        "--runs",
        "1",
        "--epochs",
        "2",
        "--batch-size",
        "63",
    )
    code, out, err = torchrun(*options, "--json", cwd=tmp_path)
    assert code == 0, err
    assert json.loads(out)["runs"] == 1  # one document: the first process speaks alone
    alone = tmp_path / "alone"
    alone.mkdir()
    assert start(*options, cwd=alone).wait(120) == 0
    shared, single = (result(folder, "none", "far-pair") for folder in (tmp_path, alone))
    assert shared["history"]["loss"] == pytest.approx(single["history"]["loss"], rel=1e-4)
    assert shared["history"]["val_loss"] == pytest.approx(single["history"]["val_loss"], rel=1e-3)


@pytest.mark.slow
def test_two_processes_adapt_the_same_rates(tmp_path):
    """Neighbor-sampled, with 75 seeds in batches of 37: one process has no seed left in the last batch of one."""
    options = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "3", "--batch-size", "37", "--fanouts", "5,5")
    code, _, err = torchrun(*options, cwd=tmp_path)
    assert code == 0, err
    assert len(set(result(tmp_path)["history"]["p"])) == 3


@pytest.mark.slow
def test_two_processes_refuse_a_full_batch(tmp_path):
    code, _, err = torchrun("train", "--method", "none", "--runs", "1", "--epochs", "2", cwd=tmp_path)
    assert code != 0
    assert "error: 2 processes cannot share full-batch training; give a batch size" in err
