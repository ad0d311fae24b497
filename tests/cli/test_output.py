"""Output that nobody reads, signals, and a folder that two want."""

import os
import signal

import pytest

from command_line import start, wait_for

LONG = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "100000", "--patience", "0", "--hidden", "8")
LONG += ("--checkpoint-every", "5", "--out", "out")


@pytest.mark.slow
def test_of_two_at_once_one_trains_and_the_other_is_told(rade, tmp_path):
    """Other settings, one folder; the lock of a killed process does not count, and SIGTERM saves and has its code."""
    quick = ("train", "--method", "rade-of", "--runs", 1, "--epochs", 3, "--hidden", 8, "--out", "out", "--overwrite")
    one = start(*LONG, cwd=tmp_path)
    wait_for(tmp_path / "out/rade-of/run-0/checkpoint.pt", one)
    code, _, err = rade(*quick)
    assert (code, err) == (
        2,
        "error: out is in use by another process; wait for it, or choose another folder with --out\n",
    )
    assert one.poll() is None
    one.send_signal(signal.SIGTERM)
    _, err = one.communicate(timeout=60)
    assert one.returncode == 143
    assert err.startswith("stopped after epoch ")
    assert err.endswith("; the same command with --resume continues\n")
    assert os.listdir(tmp_path / "out/rade-of/run-0") == ["checkpoint.pt"]
    assert rade(*quick)[0] == 0


@pytest.mark.parametrize("arguments", [("--help",), ("datasets",)])
def test_output_in_ascii_replaces_what_it_lacks(arguments, tmp_path):
    process = start(*arguments, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.isascii()
    assert len(out) > 500


@pytest.mark.parametrize(("place", "code"), [("/dev/full", 3), ("/dev/null", 0)])
def test_output_that_cannot_be_written_is_a_sentence(place, code, tmp_path):
    with open(place, "w") as full:
        process = start("datasets", "--json", cwd=tmp_path, stdout=full)
        _, err = process.communicate()
    assert process.returncode == code
    assert err.count("\n") == bool(code)
    assert ("No space left on device" in err) == bool(code)


def test_help_tells_the_exit_codes(rade):
    text = " ".join(rade("--help")[1].split())
    for words in ("1 the run failed", "2 wrong input", "3 the machine refused", "130 Ctrl-C", "143 SIGTERM"):
        assert words in text
