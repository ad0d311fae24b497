"""Output is not the job: training ends well although nobody reads, and leaves with the right code if it is stopped."""

import os
import resource
import signal
import subprocess

import pytest

from command_line import COMMAND, ENVIRONMENT, start, wait_for
from rade.train.record import RunRecord

QUICK = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "3", "--hidden", "8", "--out", "out")
LONG = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "100000", "--patience", "0", "--hidden", "8")
LONG += ("--checkpoint-every", "5", "--out", "out")


def finished(folder):
    RunRecord.from_json((folder / "out/rade-of/run-0/result.json").read_bytes())
    return True


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_end_training(tmp_path):
    """As in `rade train | head -1`."""
    process = start(*QUICK, cwd=tmp_path)
    process.stdout.close()
    with process.stderr as stream:
        err = stream.read()
    assert (process.wait(), err) == (0, "")
    assert finished(tmp_path)


@pytest.mark.slow
def test_a_full_disk_behind_the_output_is_told_at_the_end(tmp_path):
    with open("/dev/full", "w") as full:
        process = start(*QUICK, "--json", cwd=tmp_path, stdout=full)
        _, err = process.communicate()
    assert process.returncode == 3
    assert err == "error: standard output could not be written: No space left on device; the work is done\n"
    assert finished(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_end_training(closed, tmp_path):
    line = " ".join([*COMMAND, *QUICK, closed])
    assert subprocess.run(line, shell=True, cwd=tmp_path, env=ENVIRONMENT).returncode == 0
    assert finished(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 143)])
def test_signals_save_and_leave_with_their_code(number, code, tmp_path):
    process = start(*LONG, cwd=tmp_path)
    wait_for(tmp_path / "out/rade-of/run-0/checkpoint.pt", process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith("stopped after epoch ")
    assert err.endswith("; the same command with --resume continues\n")
    assert sorted(os.listdir(tmp_path / "out")) == ["rade-of"]  # no lock is left
    assert os.listdir(tmp_path / "out/rade-of/run-0") == ["checkpoint.pt"]


@pytest.mark.slow
def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path):
    """As under nohup."""
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = start(*QUICK, "--epochs", "100", "--checkpoint-every", "1", cwd=tmp_path, **ignore)
    wait_for(tmp_path / "out/rade-of/run-0/checkpoint.pt", process)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
def test_of_two_at_once_one_trains_and_the_other_is_told(tmp_path):
    """Other settings, one folder."""
    one = start(*LONG, cwd=tmp_path)
    wait_for(tmp_path / "out/rade-of/run-0/checkpoint.pt", one)
    other = start(*QUICK, "--overwrite", cwd=tmp_path)
    _, err = other.communicate()
    assert other.returncode == 2
    assert f"error: out is in use by process {one.pid} on " in err
    assert "; wait for it, or choose another folder with --out\n" in err
    assert one.poll() is None
    one.kill()
    one.communicate()
    process = start(*QUICK, "--overwrite", cwd=tmp_path)  # the lock of a killed process does not count
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert finished(tmp_path)


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_a_sentence(tmp_path):
    """The limit stands for a full disk: the first file that is too large fails in the middle of a write."""
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))}
    process = start(*QUICK, cwd=tmp_path, **limit)
    _, err = process.communicate()
    assert process.returncode == 3
    assert err == "error: cannot write to out/rade-of/run-0: File too large; choose another folder with --out\n"
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("arguments", [("train", "--help"), ("--help",), ("datasets",)])
def test_output_in_ascii_replaces_what_it_lacks(arguments, tmp_path):
    process = start(*arguments, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.isascii()
    assert len(out) > 500


def test_help_tells_the_exit_codes(rade):
    text = " ".join(rade("--help")[1].split())
    for words in ("1 the run failed", "2 wrong input", "3 the machine refused", "130 Ctrl-C", "143 SIGTERM"):
        assert words in text
