"""Files of a run: whole or not at all, whatever stops the writing; nothing in them is executed."""

import errno
import os
import stat
from pathlib import Path

import pytest
import torch

from rade.errors import EnvironmentFault, RunError
from rade.train import load_run, resolve, train_run
from rade.train.files import write_whole
from rade.train.record import RunRecord
from rade.train.run import Keeping


def test_a_link_stays_and_a_pipe_is_written_to(tmp_path):
    for link, target in (("link", "elsewhere/real.csv"), ("dangling", "new/real.csv")):
        (tmp_path / link).symlink_to(target)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/real.csv").write_text("old")
    for link in ("link", "dangling"):
        write_whole(tmp_path / link, lambda file: file.write(b"new"))
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / link).read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", lambda file: file.write(b"rows"))
    assert os.read(reader, 10) == b"rows"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize(
    ("stop", "sentence"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "cannot write to .*: No space left on device; choose"),
        (KeyboardInterrupt("killed"), "killed"),
    ],
    ids=["full disk", "killed"],
)
@pytest.mark.parametrize("file", ["checkpoint.pt", "model.pt", "result.json"])
def test_a_run_stopped_at_one_of_its_files_leaves_the_old_ones_and_resumes(
    file, stop, sentence, papers, tmp_path, monkeypatch
):
    """While it replaces an earlier run with other settings; what was half-written goes."""
    old, new = (resolve("csbm", "gcn", "none", epochs=6, hidden=hidden) for hidden in (8, 4))
    whole, folder, real = train_run(papers, new, 0, tmp_path / "whole"), tmp_path / "none/run-0", os.replace
    first = train_run(papers, old, 0, folder)

    def stopped(source, target):
        if Path(target).name == file:
            raise stop
        real(source, target)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises((EnvironmentFault, KeyboardInterrupt), match=sentence):
        train_run(papers, new, 0, folder, keeping=Keeping(every=2 if file == "checkpoint.pt" else 50))
    monkeypatch.undo()
    assert RunRecord.model_validate_json((folder / "result.json").read_bytes()) == first
    assert not list(folder.glob(".*"))
    if file == "checkpoint.pt":
        (folder / "result.json").unlink()
    else:
        assert (folder / "checkpoint.pt").exists()
    (folder / ".model.pt.part").write_text("half, of a process that was killed")
    assert train_run(papers, new, 0, folder, resume=True).history == whole.history
    assert load_run(folder).settings.hidden == 4
    assert sorted(os.listdir(folder)) == ["model.pt", "result.json"]


def test_a_checkpoint_cannot_run_code(papers, tmp_path):
    class Attack:
        def __reduce__(self):
            return (print, ("executed",))

    torch.save({"settings": Attack()}, tmp_path / "checkpoint.pt")
    with pytest.raises(RunError, match=r"damaged or not a file of rade"):
        train_run(papers, resolve("csbm"), 0, tmp_path, resume=True)
