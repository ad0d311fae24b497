"""A raw file is complete, checked and in its place, or it is not used: on loading, importing and downloading."""

import io
import os
import pickle
import resource
import signal
import socket
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rade.data
from rade.commands.datasets import app
from rade.data import files as raw
from rade.data.files import RawFolder, raw_files
from rade.data.readers import read_peptides


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def files_below(place):
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), r"is truncated: expected 257305 bytes.* got 1000"),
        (flip, r"Cora/raw/ind\.cora\.allx in .* is altered: expected"),
        (lambda path: path.write_bytes(pickle.dumps(Bomb(path.parent / "mark")).ljust(300_000)), "altered"),
    ],
    ids=["truncated", "flipped", "malicious"],
)
def test_a_file_that_cannot_be_used_is_named_and_a_pickle_in_it_not_opened(change, sentence, mirror, tmp_path):
    rade.data.import_mirror(mirror, tmp_path, ["cora"])
    path = tmp_path / "Cora/raw/ind.cora.allx"
    change(path)
    with pytest.raises(rade.data.DataError, match=sentence):
        rade.data.load("cora", tmp_path, download=False)
    assert not (path.parent / "mark").exists()


@pytest.mark.parametrize(
    ("key", "change", "sentence"),
    [
        ("class_names", lambda _: np.array(["an object array, never opened"], dtype=object), ""),
        ("adj_indices", np.zeros_like, r"should have .* = \(1, 18333, 81894, 6805\), its file has"),
        ("labels", lambda _: np.array([Bomb(Path("mark"))], dtype=object), "cannot be read"),
    ],
    ids=["the same", "other edges", "a pickle"],
)
def test_another_packing_is_accepted_if_its_sizes_are_right(key, change, sentence, mirror, tmp_path, monkeypatch):
    """The public npz files of Computers, CS and Physics are not byte-identical to the mirror's."""
    monkeypatch.chdir(tmp_path)
    rade.data.import_mirror(mirror, tmp_path, ["cs"])
    path = tmp_path / "CS/raw/ms_academic_cs.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {key: change(arrays.get(key))})
    if sentence:
        with pytest.raises(rade.data.DataError, match=sentence):
            rade.data.load("cs", tmp_path, download=False)
    else:
        assert rade.data.load("cs", tmp_path, download=False).graphs[0].num_nodes == 18333
    assert not Path("mark").exists()


def test_importing_twice_changes_nothing_and_altered_files_are_refused_or_replaced(mirror, tmp_path):
    every, one = [file.path for file in raw_files("mutag")], "MUTAG/raw/MUTAG_A.txt"
    assert rade.data.import_mirror(mirror, tmp_path, ["mutag"])["mutag"] == dict.fromkeys(every, "new")
    before = {path: (tmp_path / path).stat().st_ino for path in files_below(tmp_path)}
    assert rade.data.import_mirror(mirror, tmp_path, ["mutag"])["mutag"] == dict.fromkeys(every, "present")
    assert {path: (tmp_path / path).stat().st_ino for path in files_below(tmp_path)} == before
    assert {(tmp_path / path).stat().st_mode & 0o777 for path in before} == {0o644}
    flip(tmp_path / one)
    states = rade.data.import_mirror(mirror, tmp_path, ["mutag"])["mutag"]
    assert [path for path, state in states.items() if state == "new"] == [one]
    flip(tmp_path / one)
    with pytest.raises(rade.data.DataError, match=rf"{one} in .* is altered"):
        rade.data.import_mirror(tmp_path, tmp_path / "root", ["mutag"])
    assert not (tmp_path / "root" / one).exists()


def test_a_full_disk_leaves_nothing_half_written(mirror, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # writing more fails as it does on a full disk
    try:
        with pytest.raises(OSError, match="File too large"):
            rade.data.import_mirror(mirror, tmp_path, ["mutag"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert all((mirror / path).read_bytes() == (tmp_path / path).read_bytes() for path in files_below(tmp_path))


@pytest.fixture
def serve(monkeypatch):
    """Addresses answered from memory."""
    return lambda answer: monkeypatch.setattr(raw, "_download", lambda address: io.BytesIO(answer(address)))


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def test_files_come_one_by_one_and_only_those_that_are_missing(mirror, tmp_path, serve):
    asked = []
    serve(lambda url: asked.append(url) or (mirror / "Cora/raw" / url.rpartition("/")[2]).read_bytes())
    assert rade.data.load("cora", tmp_path / "root").graphs[0].num_nodes == 2708
    assert len(asked) == 8
    asked.clear()
    (tmp_path / "root/Cora/raw/ind.cora.tx").unlink()
    called = CliRunner().invoke(app, ["download", "cora", "csbm", "--data-root", str(tmp_path / "root")])
    assert called.output == "cora: 1 new, 7 already there\ncsbm: generated, needs no file\n"
    assert asked == ["https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.tx"]


def test_only_files_of_the_manifest_are_taken_out_of_an_archive(mirror, tmp_path, serve):
    files = raw_files("mutag")
    members = {f.path.replace("MUTAG/raw/", "MUTAG/"): (mirror / f.path).read_bytes() for f in files}
    serve(lambda url: zipped(members | {"MUTAG/processed/data.pt": b"a pickle", "../../escaped": b"x"}))
    assert len(rade.data.load("mutag", tmp_path / "root").graphs) == 188
    assert files_below(tmp_path) == {f"root/{file.path}" for file in files}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("cora", b"cos\nsystem\n(S'true'\ntR.", r"Cora/raw/ind\.cora\.allx in 'the download' is truncated"),
        ("mutag", b"<html>sorry</html>", "not a zip file"),
        ("mutag", zipped({"other": b""}), "no item named"),
        ("mutag", zipped({"MUTAG/MUTAG_A.txt": b"1, 2"}), "MUTAG_A.txt in 'the download' is truncated"),
        ("mutag", None, r"needs .*datasets import.*download failed: .*must not use the netw"),
    ],
)
def test_a_download_that_is_not_the_file_is_refused_and_not_kept(name, content, reason, tmp_path, serve):
    """Nor is one without a network."""
    if content is not None:
        serve(lambda url: content)
    with pytest.raises(rade.data.DataError, match=reason):
        rade.data.load(name, tmp_path / "root")
    assert not files_below(tmp_path / "root")


def test_lrgbs_archive_becomes_the_compact_form_and_is_not_kept(tmp_path, serve):
    """Three graphs as LRGB stores them: (x, edge_attr, edge_index, y), each bond in both directions."""
    edges, members = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), {}
    for k, part in enumerate(("train", "val", "test")):
        content = io.BytesIO()
        torch.save([(torch.full((3, 9), k), torch.zeros(4, 3), edges, torch.eye(10)[[k]])], content)
        members[f"peptidesfunc/{part}.pt"] = content.getvalue()
    serve(lambda url: zipped(members))
    with pytest.raises(rade.data.DataError, match=r"Peptides-func should have .*its file has \(3, 9, 6, 9\)"):
        rade.data.load("peptides-func", tmp_path / "root")
    assert files_below(tmp_path / "root") == {"peptides-func/source/peptides_func_graphs.npz"}
    tables = read_peptides(RawFolder(tmp_path / "root", rade.data.resolve("peptides-func")))
    assert tables.edge_index[:, 4:8].tolist() == edges.tolist()
    assert tables.x[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(tables.y, torch.eye(10)[:3])
    assert [part.tolist() for part in vars(tables.splits[0]).values()] == [[0], [1], [2]]


def test_a_silent_host_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(raw, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        monkeypatch.setattr(raw, "_address", lambda *arguments: address)
        with pytest.raises(rade.data.DataError, match=r"download failed: .*timed out"):
            rade.data.load("cora", tmp_path)
