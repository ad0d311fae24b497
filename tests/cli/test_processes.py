"""Training that two processes share; signals; one writer; output that cannot be written."""

import errno
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from rade.commands.display import Display
from rade.train.process import holding

RUN = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "100", "--patience", "0", "--hidden", "8")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rade")


@pytest.mark.slow
def test_two_processes_have_the_numbers_of_one(rade, start):
    """1,200 graphs in batches of 63 leave parts of 32, 31 and, at the end, 2 and 1; only the order of sums differs."""
    options = "train --dataset far-pair --method none --runs 1 --epochs 2 --batch-size 63 --layers 2 --hidden 16 --json"
    process = start(*TORCHRUN, *options.split(), "--out", "shared")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert len(json.loads(out)["runs"]) == 1  # one document: the first process speaks alone
    assert rade(*options.split(), "--out", "alone")[0] == 0
    files = (Path(name, "none/run-0/result.json") for name in ("shared", "alone"))
    shared, alone = (json.loads(file.read_text())["history"] for file in files)
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


def test_one_process_writes_to_a_folder_and_the_lock_of_a_killed_one_does_not_count(rade):
    with holding(Path("out")):
        code, _, err = rade(*RUN, "--out", "out", "--overwrite")
    assert (code, err.split(";")[0]) == (2, "error: out is in use by another process")
    Path("out/.writer").touch()
    assert rade("train", "--method", "none", "--runs", 1, "--epochs", 1, "--out", "out")[0] == 0
    assert not Path("out/.writer").exists()


def test_an_old_terminal_gets_question_marks_for_what_it_lacks(rade, monkeypatch, tmp_path):
    """Latin-1 has no dash like the one in the table of `train`."""
    with (tmp_path / "out.txt").open("w", encoding="latin-1") as old_terminal:
        monkeypatch.setattr(sys, "stdout", old_terminal)
        assert rade("train", "--method", "none", "--runs", 2, "--epochs", 1)[::2] == (0, "")
    assert " ? " in (tmp_path / "out.txt").read_text("latin-1")


def test_output_that_cannot_be_written_is_a_sentence(rade, monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr(os, "dup2", lambda *files: None)
    code, _, err = rade("datasets", "--json")
    assert (code, err.count("\n")) == (3, 1)
    assert "No space left on device" in err
