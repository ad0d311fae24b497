"""Downloads: through PyG's classes, checked like everything else; no network is touched here."""

import shutil
import socket
import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric import datasets
from torch_geometric.io import fs

import rade.data
from rade.data.files import download
from rade.data.files.raw import RawFolder
from rade.data.readers.peptides import read_peptides, repack


def refuse(*arguments: object, **options: object) -> None:
    raise OSError("no network")


@pytest.mark.parametrize("name", [name for name in rade.data.names() if not rade.data.resolve(name).embedded])
def test_without_network_the_sentence_names_file_and_reason(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    family = rade.data.resolve(name).family
    monkeypatch.setitem(download.DOWNLOADS, family, refuse)
    with pytest.raises(rade.data.DataError, match=r"needs .*datasets import.*download failed: OSError: no network"):
        rade.data.load(name, tmp_path)
    assert not list(tmp_path.glob(".incoming-*"))


def test_planetoid_comes_through_pygs_class(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fetch(url: str, folder: str) -> None:
        assert url.startswith("https://github.com/kimiyoung/planetoid")
        shutil.copy(mirror / "Cora/raw" / url.rpartition("/")[2], folder)

    monkeypatch.setattr(datasets.planetoid.fs, "cp", fetch)
    assert rade.data.load("cora", tmp_path).graphs[0].num_nodes == 2708
    monkeypatch.setattr(datasets.planetoid.fs, "cp", refuse)
    assert rade.data.load("cora", tmp_path).graphs[0].num_nodes == 2708


def test_a_tampered_download_is_refused(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fetch(url: str, folder: str) -> None:
        (Path(folder) / url.rpartition("/")[2]).write_bytes(b"cos\nsystem\n(S'true'\ntR.")

    monkeypatch.setattr(datasets.planetoid.fs, "cp", fetch)
    with pytest.raises(rade.data.DataError, match="truncated"):
        rade.data.load("cora", tmp_path)


@pytest.mark.parametrize(
    ("name", "module", "path"),
    [
        ("cs", "coauthor", "CS/raw/ms_academic_cs.npz"),
        ("computer", "amazon", "Computers/raw/amazon_electronics_computers.npz"),
    ],
)
def test_npz_files_come_through_pygs_classes(
    name: str, module: str, path: str, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vars(datasets)[module], "download_url", lambda url, folder: shutil.copy(mirror / path, folder))
    assert rade.data.load(name, tmp_path).graphs[0].num_nodes == rade.data.resolve(name).nodes


def archive(folder: Path, inside: str, place: Path) -> str:
    with zipfile.ZipFile(place, "w") as target:
        for file in folder.rglob("*"):
            if file.is_file() and "rade" not in file.parts:
                target.write(file, f"{inside}/{file.relative_to(folder)}")
    return str(place)


def test_tu_comes_through_pygs_class(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fetch(url: str, folder: str, extract: bool) -> None:
        assert url.endswith("/MUTAG.zip")
        zipfile.ZipFile(archive(mirror / "MUTAG/raw", "MUTAG", tmp_path / "m.zip")).extractall(folder)

    monkeypatch.setattr(fs, "cp", fetch)
    assert len(rade.data.load("mutag", tmp_path / "root").graphs) == 188


def test_ogb_comes_from_its_archive(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import torch_geometric.data

    def fetch(url: str, folder: str) -> str:
        assert url.endswith("csv_mol_download/hiv.zip")
        return archive(mirror / "ogbg_molhiv", "hiv", Path(folder) / "hiv.zip")

    monkeypatch.setattr(torch_geometric.data, "download_url", fetch)
    monkeypatch.setattr("builtins.input", refuse)  # ogb's own class would ask
    assert len(rade.data.load("ogbg-molhiv", tmp_path).graphs) == 41127
    assert [path.name for path in tmp_path.iterdir()] == ["ogbg_molhiv"]


def test_lrgbs_tensor_files_become_the_compact_form(tmp_path: Path):
    """Three graphs as LRGB stores them: (x, edge_attr, edge_index, y), each bond in both directions."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = [(torch.full((3, 9), k), torch.zeros(4, 3, dtype=torch.long), edges, torch.eye(10)[[k]]) for k in range(3)]
    raw = tmp_path / "peptides-func" / "raw"
    raw.mkdir(parents=True)
    for part, graph in zip(("train", "val", "test"), graphs):
        torch.save([graph], raw / f"{part}.pt")
    repack(raw, tmp_path / "peptides-func" / "source")
    tables = read_peptides(RawFolder(tmp_path, rade.data.resolve("peptides-func"), verify=False))
    assert tables.node_ptr.tolist() == [0, 3, 6, 9]
    assert tables.edge_index[:, 4:8].tolist() == edges.tolist()
    assert tables.x[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(tables.y, torch.eye(10)[:3])
    assert [part.tolist() for part in tables.split] == [[0], [1], [2]]
    assert not list(raw.iterdir())


def test_the_tests_themselves_cannot_reach_a_host():
    with pytest.raises(OSError, match=r"must not use the network, but asked for example\.invalid"):
        socket.getaddrinfo("example.invalid", 443)
