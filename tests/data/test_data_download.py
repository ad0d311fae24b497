"""Downloads: the files of the manifest and nothing else, checked like everything else; no network is touched here."""

import io
import socket
import zipfile
from pathlib import Path
from urllib.request import Request

import pytest
import torch

import rade.data
from looping import looped
from rade.data.catalogue import catalogue
from rade.data.files import download, web
from rade.data.files.manifest import raw_files, required_files
from rade.data.files.raw import RawFolder
from rade.data.readers.peptides import read_peptides, repack

REAL = [name for name, entry in catalogue().items() if not entry.embedded]


class Web:
    """Addresses that were asked for, answered from memory."""

    def __init__(self, answer) -> None:
        self.answer, self.asked = answer, []

    def __call__(self, url: str) -> io.BytesIO:
        self.asked.append(url)
        return io.BytesIO(self.answer(url))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch):
    def install(answer) -> Web:
        served = Web(answer)
        monkeypatch.setattr(download, "open_url", served)
        return served

    return install


def refuse(url: str) -> bytes:
    raise OSError("no network")


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def files_below(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and "rade" not in path.parts}


@pytest.mark.parametrize("name", REAL)
def test_without_network_the_sentence_names_file_and_reason(name: str, tmp_path: Path, serve):
    serve(refuse)
    with pytest.raises(rade.data.DataError, match=r"needs .*datasets import.*download failed: no network"):
        rade.data.load(name, tmp_path)
    assert not files_below(tmp_path)


@looped("name", REAL)
def test_every_data_set_has_an_encrypted_source(name: str):
    entry = rade.data.resolve(name)
    source = web.source_of(entry)
    for file in [file for file in required_files(name) if file.path.startswith(entry.folder)]:
        address = source.archive.format(folder=entry.folder) or source.address(entry, file)
        assert address.startswith("https://")
        assert "{" not in address
        assert bool(source.archive) == bool(source.inside or source.members)


def test_planetoid_files_come_one_by_one_and_only_those_that_are_missing(mirror: Path, tmp_path: Path, serve):
    served = serve(lambda url: (mirror / "Cora/raw" / url.rpartition("/")[2]).read_bytes())
    assert rade.data.load("cora", tmp_path).graphs[0].num_nodes == 2708
    assert len(served.asked) == 8
    assert served.asked[0] == "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.allx"
    (tmp_path / "Cora/raw/ind.cora.tx").unlink()
    rade.data.load("cora", tmp_path)
    assert served.asked[8:] == ["https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.tx"]


def test_a_tampered_download_is_refused_and_not_kept(tmp_path: Path, serve):
    serve(lambda url: b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(rade.data.DataError, match=r"ind\.cora\.allx below 'https.* is truncated"):
        rade.data.load("cora", tmp_path)
    assert not files_below(tmp_path)


def test_a_member_that_unpacks_to_more_than_expected_is_cut_off(mirror: Path, tmp_path: Path, serve):
    files = {f"MUTAG/{path.name}": path.read_bytes() for path in (mirror / "MUTAG/raw").iterdir()}
    serve(lambda url: zipped(files | {"MUTAG/MUTAG_A.txt": bytes(50_000_000)}))
    with pytest.raises(rade.data.DataError, match=r"expected 76940 bytes .* got 76941 bytes"):
        rade.data.load("mutag", tmp_path)


@pytest.mark.parametrize(
    ("name", "path"),
    [("cs", "CS/raw/ms_academic_cs.npz"), ("computer", "Computers/raw/amazon_electronics_computers.npz")],
)
def test_npz_files_come_from_their_repository(name: str, path: str, mirror: Path, tmp_path: Path, serve):
    served = serve(lambda url: (mirror / path).read_bytes())
    assert rade.data.load(name, tmp_path).graphs[0].num_nodes == rade.data.resolve(name).nodes
    assert served.asked == [f"https://github.com/shchur/gnn-benchmark/raw/master/data/npz/{Path(path).name}"]


def test_only_files_of_the_manifest_are_taken_out_of_an_archive(mirror: Path, tmp_path: Path, serve):
    files = {f"MUTAG/{path.name}": path.read_bytes() for path in (mirror / "MUTAG/raw").iterdir()}
    strangers = {"MUTAG/processed/data.pt": b"a pickle", "../../escaped": b"x", "MUTAG/notes.pkl": b"y"}
    served = serve(lambda url: zipped(files | strangers))
    assert len(rade.data.load("mutag", tmp_path).graphs) == 188
    assert served.asked == ["https://www.chrsmrrs.com/graphkerneldatasets/MUTAG.zip"]
    assert files_below(tmp_path) == {file.path for file in required_files("mutag")}
    assert not (tmp_path.parent / "escaped").exists()


def test_ogb_comes_from_its_archive_over_https(mirror: Path, tmp_path: Path, serve):
    files = {f.path.replace("ogbg_molhiv/", "hiv/"): (mirror / f.path).read_bytes() for f in raw_files("ogbg-molhiv")}
    served = serve(lambda url: zipped(files | {"hiv/processed/geometric_data_processed.pt": b"a pickle"}))
    assert len(rade.data.load("ogbg-molhiv", tmp_path).graphs) == 41127
    assert served.asked == ["https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip"]
    assert files_below(tmp_path) == {file.path for file in required_files("ogbg-molhiv")}


@pytest.mark.parametrize(
    ("content", "reason"), [(b"<html>sorry</html>", "not a zip file"), (zipped({"other": b""}), "no item named")]
)
def test_an_archive_that_is_none_or_lacks_the_files_is_explained(content: bytes, reason: str, tmp_path: Path, serve):
    serve(lambda url: content)
    with pytest.raises(rade.data.DataError, match=rf"MUTAG needs .*download failed: .*{reason}"):
        rade.data.load("mutag", tmp_path)
    assert not files_below(tmp_path)


def graphs_of_lrgb(tmp_path: Path) -> tuple[dict[str, Path], torch.Tensor]:
    """Three graphs as LRGB stores them: (x, edge_attr, edge_index, y), each bond in both directions."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    parts = {}
    for k, part in enumerate(("train", "val", "test")):
        graph = (torch.full((3, 9), k), torch.zeros(4, 3, dtype=torch.long), edges, torch.eye(10)[[k]])
        parts[f"{part}.pt"] = tmp_path / f"{part}.pt"
        torch.save([graph], tmp_path / f"{part}.pt")
    return parts, edges


def test_lrgbs_tensor_files_become_the_compact_form(tmp_path: Path):
    parts, edges = graphs_of_lrgb(tmp_path)
    place = tmp_path / "peptides-func" / "source"
    place.mkdir(parents=True)
    with (place / "peptides_func_graphs.npz").open("wb") as out:
        repack(parts, out)
    tables = read_peptides(RawFolder(tmp_path, rade.data.resolve("peptides-func"), verify=False))
    assert tables.node_ptr.tolist() == [0, 3, 6, 9]
    assert tables.edge_index[:, 4:8].tolist() == edges.tolist()
    assert tables.x[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(tables.y, torch.eye(10)[:3])
    assert [part.tolist() for part in tables.splits[0]] == [[0], [1], [2]]


def test_lrgbs_archive_is_converted_and_not_kept(tmp_path: Path, serve):
    parts, _ = graphs_of_lrgb(tmp_path)
    serve(lambda url: zipped({f"peptidesfunc/{name}": path.read_bytes() for name, path in parts.items()}))
    root = tmp_path / "root"
    dataset = rade.data.load("peptides-func", root, verify=False)
    assert (len(dataset.graphs), dataset.graphs[1].num_nodes) == (3, 3)
    assert files_below(root) == {"peptides-func/source/peptides_func_graphs.npz"}


def test_perturbed_graphs_come_from_their_own_places(mirror: Path, tmp_path: Path, serve):
    def answer(url: str) -> bytes:
        (path,) = [file.path for file in raw_files("pubmed-nettack-3") if url.endswith(f"/{Path(file.path).name}")]
        return (mirror / path).read_bytes()

    served = serve(answer)
    assert rade.data.load("pubmed-nettack-3", tmp_path).graphs[0].edge_index.size(1) == 2 * 44880
    hosts = {url.rpartition("/")[0] for url in served.asked}
    assert hosts == {
        "https://github.com/kimiyoung/planetoid/raw/master/data",
        "https://github.com/ChandlerBang/Pro-GNN/raw/master/nettack",
    }


def test_the_structure_of_arxiv_is_made_of_ogbs_archive(mirror: Path, tmp_path: Path, serve):
    names = ("num-node-list.csv.gz", "edge.csv.gz", "node-label.csv.gz")
    files = {f"arxiv/raw/{name}": (mirror / "ogbn_arxiv/raw" / name).read_bytes() for name in names}
    serve(lambda url: zipped(files))
    downloaded = rade.data.load("arxiv-structure", tmp_path).graphs[0]
    assert files_below(tmp_path) == {"ogbn_arxiv/structure/citations.npz"}
    rade.data.import_mirror(mirror, tmp_path / "again", ["arxiv-structure"])
    imported = rade.data.load("arxiv-structure", tmp_path / "again", download=False).graphs[0]
    assert torch.equal(downloaded.edge_index, imported.edge_index)
    assert torch.equal(downloaded.x, imported.x)


def test_nobody_answering_is_said_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A server that takes the connection and keeps silent; the limit is what bounds the waiting."""
    monkeypatch.setattr(web, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        monkeypatch.setattr(web.Source, "address", lambda *arguments: address)
        with pytest.raises(rade.data.DataError, match=r"download failed: .*(no answer from 127\.0\.0\.1|timed out)"):
            rade.data.load("cora", tmp_path)


def test_a_name_that_takes_long_to_look_up_is_given_up(monkeypatch: pytest.MonkeyPatch):
    import threading

    released = threading.Event()
    monkeypatch.setattr(web, "PATIENCE", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **o: released.wait(30) and [])
    with pytest.raises(OSError, match=r"no answer from far\.invalid within 0\.1 s"):
        web.open_url("https://far.invalid/file")
    released.set()


def test_a_redirection_to_plain_http_is_refused():
    request = Request("https://example.invalid/a.zip")
    with pytest.raises(OSError, match=r"leads to http://elsewhere\.invalid/a\.zip, which is not encrypted"):
        web._OnlyHttps().redirect_request(request, None, 302, "Found", {}, "http://elsewhere.invalid/a.zip")


def test_the_tests_themselves_cannot_reach_a_host():
    with pytest.raises(OSError, match=r"must not use the network, but asked for example\.invalid"):
        socket.getaddrinfo("example.invalid", 443)
