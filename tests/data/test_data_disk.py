"""Full disks and killed writers: a sentence, nothing half-written, nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from data_disk import files_up_to

import rade.data
from rade.data.files.temporary import PREFIX, publish, sweep, temporary


def files_below(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*") if path.is_file())


def test_a_full_disk_while_importing_is_one_sentence_and_leaves_nothing(mirror: Path, tmp_path: Path):
    with files_up_to(20_000), pytest.raises(rade.data.DataError, match=r"cannot write to .*MUTAG/raw: .*; make room"):
        rade.data.import_mirror(mirror, tmp_path, ["mutag"])
    assert "MUTAG_A.txt" not in files_below(tmp_path)
    assert not list(tmp_path.rglob(f"{PREFIX}*"))
    rade.data.import_mirror(mirror, tmp_path, ["mutag"])
    assert len(rade.data.load("mutag", tmp_path, download=False).graphs) == 188


def test_what_is_not_published_is_removed_and_the_rest_is_readable_by_all(tmp_path: Path):
    with temporary(tmp_path) as stream:
        stream.write(b"content")
        publish(stream, tmp_path / "file")
    with pytest.raises(ValueError, match="invalid literal"), temporary(tmp_path) as stream:
        stream.write(b"half") and int("write")
    assert files_below(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"content"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


WRITER = """
import sys, time
from pathlib import Path
from rade.data.files.temporary import temporary
with temporary(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    print(stream.name, flush=True)
    time.sleep(60)
"""


def test_the_next_import_removes_orphans_and_spares_a_running_one(mirror: Path, tmp_path: Path):
    folder = tmp_path / "MUTAG" / "raw"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        killed, alive = (Path(writer.stdout.readline().decode().strip()) for writer in writers)
        writers[0].kill()
        writers[0].wait()
        assert killed.exists()
        rade.data.import_mirror(mirror, tmp_path, ["mutag"])
        assert not killed.exists()
        assert alive.exists()
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    sweep(folder)
    assert not list(folder.glob(f"{PREFIX}*"))


def test_a_sweep_quicker_than_the_lock_does_not_hurt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file vanishes between its creation and its lock: another one is made."""
    from rade.data.files import temporary as module

    flock, swept = module.fcntl.flock, []

    def late(stream, how):
        if not swept:
            swept.append(stream.name)
            os.unlink(stream.name)
        flock(stream, how)

    monkeypatch.setattr(module.fcntl, "flock", late)
    with temporary(tmp_path) as stream:
        assert stream.name != swept[0]
        publish(stream, tmp_path / "file")
    assert files_below(tmp_path) == ["file"]


def test_a_mirror_file_that_cannot_be_read_is_named(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(self: Path, mode: str = "r") -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(rade.data.DataError, match=r"cannot read .*MUTAG_A\.txt: Permission denied; make it readable"):
        rade.data.import_mirror(mirror, tmp_path, ["mutag"])


def test_a_raw_file_that_cannot_be_read_is_named(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    rade.data.import_mirror(mirror, tmp_path, ["mutag"])
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(rade.data.DataError, match=r"cannot read .*MUTAG_.*\.txt: Permission denied; make it readable"):
        rade.data.load("mutag", tmp_path, download=False)
