"""Faults that users meet: each is one sentence, with a code that tells whose fault it is."""

from pathlib import Path

import pytest

from rade import data as data_sets

QUICK = ("--epochs", 2, "--hidden", 8, "--runs", 1)


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR"])
def test_processes_that_are_announced_but_not_there(missing, rade, monkeypatch):
    there = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    code, _, err = rade("train", *QUICK)
    assert (code, err.count("\n")) == (2, 1)
    assert f"{missing} expected, but not set); start them with torchrun, or unset WORLD_SIZE" in err


@pytest.mark.parametrize("name", ["checkpoint.pt", "result.json"])
@pytest.mark.parametrize("option", ["--resume", "--overwrite"])
def test_a_folder_in_the_place_of_a_file(name, option, rade, tmp_path):
    (tmp_path / "out/none/run-0" / name).mkdir(parents=True)
    code, _, err = rade("train", *QUICK, "--method", "none", "--out", "out", option)
    assert (code, err.count("\n")) == (2, 1)
    assert f"out/none/run-0/{name}" in err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system in which no folder can be made")
@pytest.mark.parametrize("command", [("demo",), ("train", *QUICK)])
def test_a_folder_that_cannot_be_made_is_the_machines_refusal(command, rade):
    code, _, err = rade(*command, "--out", "/proc/nowhere")
    assert (code, err.count("\n")) == (3, 1)
    assert "cannot write to /proc/nowhere" in err


def test_refusals_of_the_machine_have_a_code_of_their_own(rade, monkeypatch):
    def refused(*arguments):
        raise PermissionError(13, "Permission denied", "out")

    monkeypatch.setattr(data_sets, "load", refused)
    code, _, err = rade("train", *QUICK)
    assert (code, err) == (3, "error: cannot go on: out: Permission denied\n")


def test_a_run_that_fails_has_code_1(rade):
    code, _, err = rade("train", *QUICK, "--method", "none", "--lr", "1e30")
    assert (code, err.count("\n")) == (1, 1)
    assert "became nan in epoch" in err


def test_defects_stay_visible(rade, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("a defect")

    monkeypatch.setattr(data_sets, "load", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        rade("train", *QUICK)
