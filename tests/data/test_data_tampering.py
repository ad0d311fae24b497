"""A file whose bytes changed is refused, on import and on loading, before anything in it is unpickled."""

import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import rade.data
from rade.data.files.manifest import raw_files, sha256_of
from rade.data.files.mirror import import_mirror
from rade.data.readers import planetoid

KINDS = {
    "pickle": ("cora", "Cora/raw/ind.cora.allx"),
    "pickled graph": ("citeseer", "CiteSeer/raw/ind.citeseer.graph"),
    "pickle that is not needed": ("cora", "Cora/raw/ind.cora.x"),
    "index": ("pubmed", "PubMed/raw/ind.pubmed.test.index"),
    "npz": ("cs", "CS/raw/ms_academic_cs.npz"),
    "adjacency": ("flickr", "Flickr/raw/adj_full.npz"),
    "json": ("flickr", "Flickr/raw/role.json"),
    "text": ("mutag", "MUTAG/raw/MUTAG_A.txt"),
    "csv.gz": ("ogbg-molhiv", "ogbg_molhiv/raw/edge.csv.gz"),
    "split": ("ogbg-molhiv", "ogbg_molhiv/split/scaffold/valid.csv.gz"),
    "compact npz": ("peptides-func", "peptides-func/source/peptides_func_graphs.npz"),
}


@pytest.fixture
def no_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpickling anything at all fails the test."""

    def refuse(content: bytes) -> None:
        pytest.fail("something was unpickled")

    monkeypatch.setattr(planetoid, "_unpickle", refuse)


def copy_of(name: str, source: Path, place: Path) -> Path:
    folder = rade.data.resolve(name).folder
    shutil.copytree(source / folder, place / folder, ignore=shutil.ignore_patterns("rade", "processed", "*.pt"))
    if name == "flickr":
        np.save(place / folder / "raw" / "feats.npy", np.zeros((89250, 500), dtype=np.float16))
    return place


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("no_pickles")
def test_a_flipped_byte_is_refused_on_loading(kind: str, root: Path, tmp_path: Path):
    name, path = KINDS[kind]
    flip(copy_of(name, root, tmp_path) / path)
    with pytest.raises(rade.data.DataError, match=r"altered|not readable as plain arrays"):
        rade.data.load(name, tmp_path, download=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("no_pickles")
def test_a_flipped_byte_is_refused_on_import(kind: str, mirror: Path, tmp_path: Path):
    name, path = KINDS[kind]
    flip(copy_of(name, mirror, tmp_path / "mirror") / path)
    results = {r.path: r for r in import_mirror(tmp_path / "mirror", tmp_path / "root", [name])}
    assert results[path].state == "refused"
    assert f"{path} below" in results[path].reason
    assert "is altered: expected" in results[path].reason
    assert not (tmp_path / "root" / path).exists()
    assert {r.state for p, r in results.items() if p != path and not r.optional} <= {"imported"}


@pytest.mark.usefixtures("no_pickles")
def test_a_truncated_file_is_called_truncated(mirror: Path, tmp_path: Path):
    path = copy_of("cora", mirror, tmp_path) / "Cora/raw/ind.cora.tx"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(rade.data.DataError, match=r"ind\.cora\.tx .* is truncated: expected 148025 bytes.* got 1000"):
        rade.data.load("cora", tmp_path, download=False)


def test_a_missing_file_is_named(mirror: Path, tmp_path: Path):
    (copy_of("cora", mirror, tmp_path) / "Cora/raw/ind.cora.graph").unlink()
    with pytest.raises(rade.data.DataError, match=r"Cora needs Cora/raw/ind\.cora\.graph below"):
        rade.data.load("cora", tmp_path, download=False)


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("verify", [True, False])
def test_a_malicious_pickle_does_not_run_even_without_verification(verify: bool, mirror: Path, tmp_path: Path):
    path = copy_of("cora", mirror, tmp_path) / "Cora/raw/ind.cora.allx"
    path.write_bytes(pickle.dumps(Bomb(tmp_path / "mark")))
    with pytest.raises(rade.data.DataError, match="truncated"):
        rade.data.load("cora", tmp_path, download=False, verify=verify)
    assert not (tmp_path / "mark").exists()


def test_the_unpickler_knows_only_what_planetoid_files_need(tmp_path: Path):
    with pytest.raises(rade.data.DataError, match=r"asks for posix\.mkdir|asks for nt\.mkdir"):
        planetoid._unpickle(pickle.dumps(Bomb(tmp_path / "mark")))
    assert not (tmp_path / "mark").exists()


def test_another_packing_of_the_same_arrays_is_accepted(mirror: Path, tmp_path: Path):
    """The public npz files of Computers, CS and Physics are not byte-identical to the mirror's."""
    path = copy_of("cs", mirror, tmp_path) / "CS/raw/ms_academic_cs.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays, class_names=np.array(["an object array, never opened"], dtype=object))
    data = rade.data.load("cs", tmp_path, download=False).graphs[0]
    assert (data.num_nodes, data.edge_index.size(1) // 2) == (18333, 81894)
    arrays["adj_indices"] = np.zeros_like(arrays["adj_indices"])
    np.savez(path, **arrays)
    with pytest.raises(rade.data.DataError, match=r"should have .* = \(1, 18333, 81894, 6805\), its file has"):
        rade.data.load("cs", tmp_path, download=False)


@pytest.mark.parametrize(
    ("name", "path", "key", "change"),
    [
        ("cs", "CS/raw/ms_academic_cs.npz", "labels", lambda y: np.roll(y, 1)),
        ("peptides-func", "peptides-func/source/peptides_func_graphs.npz", "y", lambda y: np.roll(y, 1, axis=0)),
        ("peptides-func", "peptides-func/source/peptides_func_graphs.npz", "test", lambda index: index + 1),
    ],
    ids=["labels of nodes", "labels of graphs", "split beyond the last graph"],
)
def test_another_packing_with_other_labels_or_splits_is_refused(
    name: str, path: str, key: str, change, mirror: Path, tmp_path: Path
):
    place = copy_of(name, mirror, tmp_path) / path
    with np.load(place) as archive:
        arrays = dict(archive)
    np.savez(place, **arrays | {key: change(arrays[key].astype(np.int64))})
    with pytest.raises(rade.data.DataError, match="right sizes but other labels, degrees or splits; delete the file"):
        rade.data.load(name, tmp_path, download=False)


def test_the_order_of_graphs_may_differ_between_packings(mirror: Path, tmp_path: Path):
    """LRGB's own files hold the three parts one after another."""
    place = copy_of("peptides-func", mirror, tmp_path) / "peptides-func/source/peptides_func_graphs.npz"
    with np.load(place) as archive:
        arrays = dict(archive)
    order = np.concatenate([arrays[part] for part in ("train", "val", "test")])
    for key, counts in (("x", "num_nodes"), ("edge", "num_edges")):
        pieces = np.split(arrays[key], arrays[counts].astype(np.int64).cumsum()[:-1])
        arrays[key] = np.concatenate([pieces[i] for i in order])
    sizes = np.cumsum([0, *(len(arrays[part]) for part in ("train", "val", "test"))])
    parts = {part: np.arange(sizes[k], sizes[k + 1]) for k, part in enumerate(("train", "val", "test"))}
    np.savez(place, **arrays | parts | {key: arrays[key][order] for key in ("num_nodes", "num_edges", "y")})
    assert len(rade.data.load("peptides-func", tmp_path, download=False).graphs) == 15535


def test_an_object_array_in_an_npz_is_not_unpickled(mirror: Path, tmp_path: Path):
    path = copy_of("computer", mirror, tmp_path) / "Computers/raw/amazon_electronics_computers.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {"labels": np.array([Bomb(tmp_path / "mark")], dtype=object)})
    with pytest.raises(rade.data.DataError, match="not readable as plain arrays"):
        rade.data.load("computer", tmp_path, download=False)
    assert not (tmp_path / "mark").exists()


def states(place: Path) -> dict[str, tuple[int, int]]:
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def test_importing_twice_changes_nothing(mirror: Path, tmp_path: Path):
    assert {r.state for r in import_mirror(mirror, tmp_path, ["cora", "mutag"])} == {"imported"}
    before = states(tmp_path)
    assert {r.state for r in import_mirror(mirror, tmp_path, ["cora", "mutag"])} == {"present"}
    assert states(tmp_path) == before


def test_importing_replaces_an_altered_file(mirror: Path, tmp_path: Path):
    import_mirror(mirror, tmp_path, ["mutag"])
    flip(tmp_path / "MUTAG/raw/MUTAG_A.txt")
    results = import_mirror(mirror, tmp_path, ["mutag"])
    assert [r.path for r in results if r.state == "imported"] == ["MUTAG/raw/MUTAG_A.txt"]


def test_many_imports_and_loads_at_once(mirror: Path, tmp_path: Path):
    def work(_: int) -> torch.Tensor:
        import_mirror(mirror, tmp_path, ["citeseer"])
        return rade.data.load("citeseer", tmp_path, download=False).graphs[0].edge_index

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(work, range(12)))
    assert all(torch.equal(found[0], other) for other in found)
    assert all(sha256_of(tmp_path / file.path) == file.sha256 for file in raw_files("citeseer"))
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]


def test_a_mirror_without_any_known_file_is_refused(tmp_path: Path):
    with pytest.raises(rade.data.DataError, match=r"has no file of Cora; expected for example Cora/raw/ind\.cora"):
        import_mirror(tmp_path, tmp_path / "root", ["cora"])
    with pytest.raises(rade.data.DataError, match="is not a folder"):
        import_mirror(tmp_path / "nowhere", tmp_path / "root")
