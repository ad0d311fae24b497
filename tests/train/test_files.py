"""Files: whole or not at all, and one writer."""

import errno
import io
import os
import stat

import pytest
import torch

from rade.errors import EnvironmentFault, RunError
from rade.train.files import load_tensors, save_tensors, sole_writer, write_whole


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


def test_what_a_killed_process_left_half_written_goes_with_the_next_one(tmp_path):
    (tmp_path / ".model.pt.part").write_text("half")
    save_tensors(tmp_path / "model.pt", {"whole": 1})
    assert os.listdir(tmp_path) == ["model.pt"]


def test_torch_does_not_see_the_disk(tmp_path, monkeypatch):
    """Its own errors about a full disk are of many kinds; it writes to memory."""
    monkeypatch.setattr(torch, "save", lambda state, file: file.write(b"x") and isinstance(file, io.BytesIO))
    save_tensors(tmp_path / "model.pt", {})
    assert (tmp_path / "model.pt").read_bytes() == b"x"


def test_a_missing_file_and_a_folder_are_sentences(tmp_path):
    with pytest.raises(RunError, match=r"there is no file .*model.pt; is this the folder of a finished run"):
        load_tensors(tmp_path / "model.pt")
    (tmp_path / "model.pt").mkdir()
    with pytest.raises(RunError, match=r"cannot read .*model.pt: Is a directory"):
        load_tensors(tmp_path / "model.pt")
    with pytest.raises(RunError, match=r"is a folder, and a file is to be written"):
        save_tensors(tmp_path / "model.pt", {})


def test_one_writer_at_a_time_and_no_lock_is_left(tmp_path):
    for _ in range(2):
        with sole_writer(tmp_path / ".writer", "busy"):
            with pytest.raises(RunError, match="busy"), sole_writer(tmp_path / ".writer", "busy"):
                raise AssertionError("two writers")
            assert (tmp_path / ".writer").exists()
        assert os.listdir(tmp_path) == []
