"""Files: whole or not at all, and readable by those whom the umask allows."""

import errno
import io
import os
import stat

import pytest
import torch

from rade.errors import EnvironmentFault, RunError
from rade.train.files import load_tensors, save_json, save_tensors, sweep, write_whole

STATE = {"weights": torch.arange(500.0), "settings": {"p": 0.5, "name": "rade-of"}, "history": [0.1, 0.2]}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_the_umask_decides_who_may_read(umask, expected, tmp_path):
    before = os.umask(umask)
    try:
        save_json(tmp_path / "result.json", {})
        save_tensors(tmp_path / "model.pt", STATE)
    finally:
        os.umask(before)
    assert mode(tmp_path / "result.json") == mode(tmp_path / "model.pt") == expected


def test_a_file_that_is_there_keeps_its_mode(tmp_path):
    path = tmp_path / "predictions.csv"
    path.write_text("")
    path.chmod(0o640)
    write_whole(path, lambda file: file.write(b"new"))
    assert (mode(path), path.read_bytes()) == (0o640, b"new")


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link, dangling = tmp_path / "link.csv", tmp_path / "dangling.csv"
    (tmp_path / "elsewhere/real.csv").write_text("old")
    link.symlink_to("elsewhere/real.csv")
    dangling.symlink_to(tmp_path / "new/real.csv")
    for path in (link, dangling):
        write_whole(path, lambda file: file.write(b"new"))
        assert path.is_symlink()
        assert path.read_bytes() == b"new"
    assert (tmp_path / "elsewhere/real.csv").read_bytes() == (tmp_path / "new/real.csv").read_bytes() == b"new"


def test_a_pipe_is_written_to_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(path, lambda file: file.write(b"rows"))
    assert os.read(reader, 10) == b"rows"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_full_disk_is_a_sentence_and_leaves_the_old_file_alone(moment, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save_tensors(tmp_path / "model.pt", {"old": 1})
    if moment != "write":
        monkeypatch.setattr(os, moment, full)
    write = full if moment == "write" else lambda file: file.write(b"half")
    with pytest.raises(EnvironmentFault, match=r"cannot write to .*: No space left on device; choose another folder"):
        write_whole(tmp_path / "model.pt", write)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["model.pt"]
    assert load_tensors(tmp_path / "model.pt") == {"old": 1}


def test_torch_does_not_see_the_disk(tmp_path, monkeypatch):
    """Its own errors about a full disk are of many kinds; it writes to memory."""
    monkeypatch.setattr(torch, "save", lambda state, file: file.write(b"x") and isinstance(file, io.BytesIO))
    save_tensors(tmp_path / "model.pt", {})
    assert (tmp_path / "model.pt").read_bytes() == b"x"


def test_orphans_are_swept_and_nothing_else(tmp_path):
    for name in (".checkpoint.pt.abcd1234", ".result.json.x", "checkpoint.pt", "result.json", ".notes", ".model.pt"):
        (tmp_path / name).write_text("")
    sweep(tmp_path, "checkpoint.pt", "result.json", "model.pt")
    assert sorted(os.listdir(tmp_path)) == [".model.pt", ".notes", "checkpoint.pt", "result.json"]


def test_a_missing_file_and_a_folder_are_sentences(tmp_path):
    with pytest.raises(RunError, match=r"there is no file .*model.pt; is this the folder of a finished run"):
        load_tensors(tmp_path / "model.pt")
    (tmp_path / "model.pt").mkdir()
    with pytest.raises(RunError, match=r"cannot read .*model.pt: Is a directory"):
        load_tensors(tmp_path / "model.pt")
    with pytest.raises(RunError, match=r"is a folder, and a file is to be written"):
        save_tensors(tmp_path / "model.pt", STATE)
