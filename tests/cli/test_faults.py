"""Faults that users meet: each is a sentence, with a code that tells whose fault it is; signals; several processes."""

import errno
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from rade import data as data_sets
from rade.commands.display import Display
from rade.train.process import holding

QUICK = ("--epochs", 2, "--hidden", 8, "--runs", 1)
RUN = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "100", "--patience", "0", "--hidden", "8")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rade")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ("train --method none --lr 1e30", 1, "became nan in epoch"),
        ("train --method none --hidden 1000000000", 3, "there is not enough memory for this; a smaller --hidden or"),
        ("train --out /proc/nowhere", 3, "cannot write to /proc/nowhere"),
        ("demo --out /proc/nowhere", 3, "cannot write to /proc/nowhere"),
    ],
)
def test_a_failed_run_and_a_refusal_of_the_machine_have_codes_of_their_own(arguments, code, sentence, rade):
    if "/proc" in arguments and not Path("/proc/self").exists():
        pytest.skip("there is no file system in which no folder can be made")
    quick = QUICK if "train" in arguments else ()
    found, out, err = rade(arguments.split()[0], *quick, *arguments.split()[1:])
    assert (found, err[:7], err.count("\n")) == (code, "error: ", 1)
    assert sentence in err
    assert "demo" not in arguments or out == ""  # it looks at its folder before it trains


def test_processes_that_are_announced_but_not_there(rade, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    code, _, err = rade("train", *QUICK)
    assert (code, err.count("\n")) == (2, 1)
    assert "RANK expected, but not set); start them with torchrun, or unset WORLD_SIZE" in err


@pytest.mark.parametrize(("name", "option"), [("checkpoint.pt", "--resume"), ("result.json", "--overwrite")])
def test_a_folder_in_the_place_of_a_file(name, option, rade, tmp_path):
    (tmp_path / "out/none/run-0" / name).mkdir(parents=True)
    code, _, err = rade("train", *QUICK, "--method", "none", "--out", "out", option)
    assert (code, err.count("\n")) == (2, 1)
    assert f"out/none/run-0/{name}" in err


def test_what_a_file_system_refuses_is_a_sentence_and_defects_stay_visible(rade, monkeypatch):
    def stop(error):
        def load(*arguments):
            raise error

        monkeypatch.setattr(data_sets, "load", load)
        return rade("train", *QUICK)

    refused = (3, "", "error: cannot go on: out: Permission denied\n")
    assert stop(PermissionError(13, "Permission denied", "out")) == refused
    with pytest.raises(RuntimeError, match="a defect"):
        stop(RuntimeError("a defect"))


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


def test_ctrl_c_says_so_wherever_it_comes(rade, monkeypatch):
    monkeypatch.setattr("rade.commands.datasets.describe", lambda root: signal.raise_signal(signal.SIGINT))
    assert rade("datasets") == (130, "", "interrupted\n")


def test_output_that_cannot_be_written_is_a_sentence(rade, monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stdout", Full())
    code, _, err = rade("datasets", "--json")
    assert (code, err.count("\n")) == (3, 1)
    assert "No space left on device" in err


def test_a_training_goes_on_when_nobody_reads_its_lines(start, tmp_path):
    """As with `rade train | head`; rich would leave at the next line, with code 1 and without a word."""
    process = start("-m", "rade", "train", *QUICK, "--method", "none", "--out", "out")
    process.stdout.close()
    process.stdout = None
    assert process.communicate()[1] == "error: standard output could not be written: Broken pipe\n"
    assert process.returncode == 3
    assert (tmp_path / "out/none/run-0/result.json").exists()
