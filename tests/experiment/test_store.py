"""The store: nothing torn, nothing lost, nothing twice, and damage told."""

import gzip
import json
import os
import subprocess
import sys
from multiprocessing import get_context

import pytest

from rade.errors import EnvironmentFault
from rade.experiment.store import Store
from rade.train.errors import RunError
from rade.train.record import key_of

DATA = {"name": "cora", "files": {"x": "1"}, "options": {}}
SETTINGS = {"dataset": "cora", "seed": 0, "lr": 0.1, "threads": 0, "device": "cpu", "options": {}}


def test_a_row_survives_writing_and_reading(row, tmp_path):
    store = Store(tmp_path / "store")
    first = row(1)
    assert store.put(first)
    assert store.rows() == ([first], [])
    assert store.rows(curves=False).rows == [first.model_copy(update={"history": {}})]
    assert store.history(first["key"]) == first["history"]
    assert json.loads(store.path(first["key"]).read_text()) == first.model_dump()


def test_a_run_that_is_there_stays(row, tmp_path):
    store = Store(tmp_path)
    store.put(row(1))
    assert not store.put(row(1, val=0.9))
    assert store.rows().rows[0]["val"] == 0.5


def test_what_decides_the_numbers_decides_the_key():
    """Every change but those of threads and of the number of the device."""
    base = key_of(SETTINGS, {"rate": 0.5}, 0, DATA)
    same = [key_of(SETTINGS | {"threads": 4}, {"rate": 0.5}, 0, DATA | {"source": "elsewhere"})]
    other = [
        key_of(SETTINGS | {"lr": 0.2}, {"rate": 0.5}, 0, DATA),
        key_of(SETTINGS | {"seed": 1}, {"rate": 0.5}, 0, DATA),
        key_of(SETTINGS | {"device": "cuda:1"}, {"rate": 0.5}, 0, DATA),
        key_of(SETTINGS, {"rate": 0.6}, 0, DATA),
        key_of(SETTINGS, {"rate": 0.5}, 1, DATA),
        key_of(SETTINGS, {"rate": 0.5}, 0, DATA | {"files": {"x": "2"}}),
        key_of(SETTINGS, {"rate": 0.5}, 0, DATA, processes=2),
    ]
    assert set(same) == {base}
    assert len({base, *other}) == 8
    cuda = [key_of(SETTINGS | {"device": name}, {}, 0, DATA) for name in ("cuda", "cuda:1")]
    assert cuda[0] == cuda[1]


def test_the_numerical_version_is_part_of_the_key(monkeypatch):
    before = key_of(SETTINGS, {}, 0, DATA)
    monkeypatch.setattr("rade.train.record.NUMERICS", 10**6)
    assert key_of(SETTINGS, {}, 0, DATA) != before


def test_rows_are_chosen_by_their_settings(row, tmp_path):
    store = Store(tmp_path)
    for number, method in enumerate(("none", "rade-of", "drop-edge")):
        store.put(row(number, settings={"method": method}, protocol=("released", "paper")[number % 2]))
    assert [r["settings"]["method"] for r in store.rows(method="rade-of").rows] == ["rade-of"]
    assert len(store.rows(method=("none", "rade-of")).rows) == 2
    assert len(store.rows(dataset="cora", protocol="released").rows) == 2
    assert store.rows(backbone="gat").rows == []


def test_damaged_and_foreign_files_are_named_and_skipped(row, tmp_path):
    store = Store(tmp_path)
    for number in range(6):
        store.put(row(number))
    paths = [store.path(row(number)["key"]) for number in range(6)]
    paths[0].write_bytes(paths[0].read_bytes()[:100])  # torn
    paths[1].write_bytes(paths[1].read_bytes().replace(b'"val":0.5', b'"val":"high"'))  # edited
    paths[2].write_bytes(paths[2].read_bytes().replace(b'"format":1', b'"format":2'))
    paths[3].rename(tmp_path / "other.json")
    (tmp_path / "notes.json").write_text('{"note": 1}')
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.json").mkdir()
    rows, problems = store.rows(curves=False)
    assert sorted(r["run"] for r in rows) == [4, 5]
    told = {problem.split(" ", 1)[0].rsplit("/", 1)[1]: problem for problem in problems}
    assert "is torn or no JSON" in told[paths[0].name]
    assert "val must be a valid number" in told[paths[1].name]
    assert "has format 2, and this version of rade reads format 1" in told[paths[2].name]
    assert "a file of the store is named by its key" in told["other.json"]
    assert "is not a run of rade" in told["notes.json"]
    assert "is not a run of rade" in told["list.json"]
    assert "is torn or no JSON" in told["bytes.json"]
    assert "cannot be read: Is a directory" in told["folder.json"]
    assert len(problems) == 8
    assert store.put(row(0))  # a torn file is no run: it is written again
    assert store.has(row(0)["key"])


def test_rows_may_be_compressed(row, tmp_path):
    store, other = Store(tmp_path / "one"), Store(tmp_path / "two")
    for number in range(3):
        store.put(row(number))
    whole = store.rows()
    packed = [store.path(row(number)["key"]) for number in range(2)]
    for path in packed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert store.rows() == whole
    assert store.history(row(0)["key"]) == row(0)["history"]
    assert not store.put(row(1))  # it is there
    assert other.merge(store.folder) == (3, [])
    packed[0].write_text(row(0).to_json())  # both are there: one row
    assert store.rows() == whole
    torn = packed[1].with_name(f"{packed[1].name}.gz")
    torn.write_bytes(torn.read_bytes()[:-20])
    assert store.rows().problems == [f"{torn} is torn or not compressed by gzip"]
    assert store.put(row(1))
    assert store.rows() == whole


def test_stores_and_folders_of_rade_train_merge(row, tmp_path):
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    for number in range(3):
        one.put(row(number))
    two.put(row(2))
    folder = tmp_path / "runs" / "none" / "run-7"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(row(7).to_json())
    (tmp_path / "runs" / "summary.json").write_text("{}")
    (tmp_path / "one" / "broken.json").write_text("{")
    new, problems = two.merge(tmp_path / "one")
    assert (new, len(problems)) == (2, 1)
    assert two.merge(tmp_path / "runs") == (1, [])
    assert sorted(r["run"] for r in two.rows().rows) == [0, 1, 2, 7]
    with pytest.raises(RunError, match=r"there is no folder .*nowhere to merge"):
        two.merge(tmp_path / "nowhere")


def test_a_store_that_cannot_be_written_is_a_sentence(row, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write to .*file/store: Not a directory; choose another folder"):
        Store(tmp_path / "file" / "store").open()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentFault, match=r"cannot write to .*store: No space left on device; choose another"):
        Store(tmp_path / "store").put(row(1))
    assert list((tmp_path / "store").iterdir()) == []


def test_what_killed_writers_left_is_cleared_after_a_day(tmp_path):
    old, young = tmp_path / ".a.json.x1", tmp_path / ".b.json.x2"
    for path in (old, young):
        path.write_text("half")
    os.utime(old, (0, 0))
    Store(tmp_path).open()
    assert (old.exists(), young.exists()) == (False, True)


def test_files_can_be_read_by_others(row, tmp_path):
    store = Store(tmp_path)
    store.put(row(1))
    assert store.path(row(1)["key"]).stat().st_mode & 0o044 == 0o044


def _write(folder, first, rows):
    """A writer: its own rows, and row 0, which all of them write."""
    store = Store(folder)
    for row in (rows[0], *rows[first : first + 50]):
        store.put(row)


def test_eight_writers_lose_nothing(row, tmp_path):
    rows = [row(number) for number in range(401)]
    context = get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, 1 + 50 * k, rows)) for k in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found, problems = Store(tmp_path).rows()
    assert problems == []
    assert sorted(found, key=lambda r: r["run"]) == rows
    assert len(list(tmp_path.iterdir())) == 401


def test_the_store_does_not_need_torch():
    code = "import sys, rade.experiment.store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
