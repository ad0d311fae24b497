"""The processed form: fast, never rewritten without need, rebuilt when it must be."""

import shutil
from pathlib import Path

import pytest
import torch
from data_disk import files_up_to

import rade.data
from rade.data.features import take_rows
from rade.data.files import cache
from rade.data.files.manifest import sha256_of
from rade.data.files.raw import RawFolder
from rade.data.files.temporary import PREFIX


def states(place: Path) -> dict[str, tuple[int, int, int]]:
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino, path.stat().st_size) for path in files}


@pytest.mark.parametrize("name", ["peptides-func", "ogbg-molhiv", "physics", "cora"])
def test_a_second_load_reads_no_raw_file_and_writes_nothing(name: str, root: Path, monkeypatch: pytest.MonkeyPatch):
    first = rade.data.load(name, root, download=False)
    before = states(root)
    monkeypatch.setattr(RawFolder, "read", lambda *arguments: pytest.fail("a raw file was read"))
    second = rade.data.load(name, root, download=False)
    assert states(root) == before
    assert torch.equal(first.graphs[0].edge_index, second.graphs[0].edge_index)
    some = torch.arange(9)  # not all of Physics: dense, it takes a gigabyte
    rows, again = (take_rows(dataset.graphs[0].x, some).to_dense() for dataset in (first, second))
    assert torch.equal(rows, again)
    assert first.density == second.density


@pytest.fixture
def mutag(mirror: Path, tmp_path: Path) -> Path:
    shutil.copytree(mirror / "MUTAG", tmp_path / "MUTAG")
    rade.data.load("mutag", tmp_path, download=False)
    return tmp_path


def cache_of(place: Path) -> Path:
    (path,) = (place / "MUTAG" / "rade").iterdir()
    return path


@pytest.mark.parametrize(
    "damage",
    [lambda c: b"", lambda c: b"not a cache", lambda c: c[: len(c) // 2], lambda c: c + b"more"],
    ids=["empty", "garbage", "cut", "longer"],
)
def test_a_damaged_cache_is_rebuilt(damage, mutag: Path):
    path, content = cache_of(mutag), cache_of(mutag).read_bytes()
    path.write_bytes(damage(content))
    assert len(rade.data.load("mutag", mutag, download=False).graphs) == 188
    assert (cache_of(mutag).name, cache_of(mutag).read_bytes()) == (path.name, content)


def test_a_flipped_bit_anywhere_is_noticed_before_anything_is_parsed(mutag: Path, monkeypatch: pytest.MonkeyPatch):
    """Forty places from the first byte to the last; the parser would crash on some and read other data from others."""
    path, content = cache_of(mutag), cache_of(mutag).read_bytes()
    raw = RawFolder(mutag, rade.data.resolve("mutag"))
    assert cache.read_cache(raw) is not None
    monkeypatch.setattr(cache.torch, "load", lambda *a, **o: pytest.fail("a damaged cache was parsed"))
    for place in torch.linspace(0, len(content) - 1, 40).long().tolist():
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert cache.read_cache(raw) is None


def rewritten(path: Path, **changes) -> Path:
    """A cache with another content under a checksum that fits it."""
    state = torch.load(path, weights_only=True) | changes
    path.unlink()
    torch.save(state, path)
    return path.rename(path.with_name(f"mutag.v{cache.VERSION}.{sha256_of(path)}.pt"))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {"y": 1 - state["y"]},
        lambda state: {"y": state["y"].roll(1)},
        lambda state: {"node_ptr": state["node_ptr"] - 1},
        lambda state: {"edge_ptr": torch.zeros(3)},
        lambda state: {"splits": [[torch.arange(3)] * 3]},
        lambda state: {"y": "no tensor"},
    ],
    ids=["swapped classes", "other graphs' labels", "sizes", "shapes", "splits", "types"],
)
def test_a_rewritten_cache_with_a_fitting_checksum_is_rebuilt(change, mutag: Path):
    good = cache_of(mutag).name
    state = torch.load(cache_of(mutag), weights_only=True)
    rewritten(cache_of(mutag), **change(state))
    assert cache_of(mutag).name != good
    dataset = rade.data.load("mutag", mutag, download=False)
    assert torch.equal(torch.cat([graph.y for graph in dataset.graphs]), state["y"])
    assert dataset.folds == 10
    assert cache_of(mutag).name == good


def test_a_changed_raw_file_is_noticed(mutag: Path):
    path = mutag / "MUTAG/raw/MUTAG_graph_labels.txt"
    path.write_bytes(path.read_bytes().replace(b"-1", b"+1", 1))
    with pytest.raises(rade.data.DataError, match="altered"):
        rade.data.load("mutag", mutag, download=False)


def test_a_root_that_cannot_be_written_to_is_used_without_a_cache(mutag: Path):
    shutil.rmtree(mutag / "MUTAG" / "rade")
    (mutag / "MUTAG" / "rade").write_text("a file where the cache folder should be")
    assert len(rade.data.load("mutag", mutag, download=False).graphs) == 188


@pytest.mark.parametrize("limit", [0, 10_000, 100_000])
def test_a_full_disk_leaves_no_cache_and_no_temporary_file(limit: int, mutag: Path):
    size = cache_of(mutag).stat().st_size
    cache_of(mutag).unlink()
    assert limit < size
    with files_up_to(limit):
        assert len(rade.data.load("mutag", mutag, download=False).graphs) == 188
    assert not list((mutag / "MUTAG" / "rade").iterdir())


def test_what_a_killed_writer_left_is_removed_by_the_next(mutag: Path):
    cache_of(mutag).unlink()
    (mutag / "MUTAG" / "rade" / f"{PREFIX}abc").write_bytes(b"half")
    rade.data.load("mutag", mutag, download=False)
    assert cache_of(mutag).name.startswith("mutag.v")


def test_the_cache_holds_nothing_but_tensors_and_plain_values(mutag: Path):
    """Read with weights_only=True: no class of ours or PyG's is needed, no code can run."""
    state = torch.load(cache_of(mutag), weights_only=True)
    assert {"x", "edge_index", "y", "node_ptr", "edge_ptr", "splits", "fingerprint", "files"} == set(state)
