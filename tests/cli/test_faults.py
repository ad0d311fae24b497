"""Faults that users meet: each is one sentence, with a code that tells whose fault it is."""

from pathlib import Path

import pytest

from rade import data as data_sets

QUICK = ("--epochs", 2, "--hidden", 8, "--runs", 1)


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
