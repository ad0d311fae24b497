"""The processed form: fast, never rewritten without need, rebuilt when it must be."""

import shutil
import time
from pathlib import Path

import pytest
import torch

import rade.data
from rade.data.features import take_rows


def states(place: Path) -> dict[str, tuple[int, int, int]]:
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino, path.stat().st_size) for path in files}


@pytest.mark.parametrize("name", ["peptides-func", "ogbg-molhiv", "physics", "cora"])
def test_a_second_load_is_quick_and_writes_nothing(name: str, root: Path):
    """The bound is the requirement; the largest set takes some hundredths of a second."""
    first = rade.data.load(name, root, download=False)
    before = states(root)
    start = time.perf_counter()
    second = rade.data.load(name, root, download=False)
    assert time.perf_counter() - start < 3
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


@pytest.mark.parametrize("damage", [b"", b"not a cache"], ids=["empty", "garbage"])
def test_a_damaged_cache_is_rebuilt(damage: bytes, mutag: Path):
    size = cache_of(mutag).stat().st_size
    cache_of(mutag).write_bytes(damage)
    assert len(rade.data.load("mutag", mutag, download=False).graphs) == 188
    assert cache_of(mutag).stat().st_size == size


def test_a_cut_cache_is_rebuilt(mutag: Path):
    content = cache_of(mutag).read_bytes()
    cache_of(mutag).write_bytes(content[: len(content) // 2])
    assert len(rade.data.load("mutag", mutag, download=False).graphs) == 188
    assert cache_of(mutag).read_bytes()[:4] == content[:4]


def test_a_changed_raw_file_is_noticed(mutag: Path):
    path = mutag / "MUTAG/raw/MUTAG_graph_labels.txt"
    path.write_bytes(path.read_bytes().replace(b"-1", b"+1", 1))
    with pytest.raises(rade.data.DataError, match="altered"):
        rade.data.load("mutag", mutag, download=False)


def test_a_root_that_cannot_be_written_to_is_used_without_a_cache(mutag: Path):
    shutil.rmtree(mutag / "MUTAG" / "rade")
    (mutag / "MUTAG" / "rade").write_text("a file where the cache folder should be")
    assert len(rade.data.load("mutag", mutag, download=False).graphs) == 188


def test_the_cache_holds_nothing_but_tensors_and_plain_values(mutag: Path):
    """Read with weights_only=True: no class of ours or PyG's is needed, no code can run."""
    state = torch.load(cache_of(mutag), weights_only=True)
    assert {"x", "edge_index", "y", "node_ptr", "edge_ptr", "splits", "fingerprint", "files"} == set(state)
