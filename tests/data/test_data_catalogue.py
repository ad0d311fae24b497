"""Names, the data folder, and `rade datasets` as a user runs it."""

import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import rade.data
from command_line import caller
from rade.data.catalogue import catalogue
from rade.data.fetching import _address
from rade.data.files import raw_files, required_files


@pytest.fixture
def run(capsys):
    return caller(capsys)


def test_case_punctuation_and_aliases_do_not_matter_and_none_stands_for_two():
    assert rade.data.resolve("Chameleon (filtered)").name == "chameleon-filtered"
    for entry in catalogue().values():
        for spelling in (entry.name.upper(), entry.title.replace("-", "_"), *entry.aliases):
            assert rade.data.resolve(spelling) is entry


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("corra", "unknown data set 'corra'; did you mean 'cora'"),
        ("nosuch", r"unknown data set 'nosuch'\. Known: cora, citeseer"),
        ("cora", "fixed content"),
    ],
)
def test_what_is_asked_wrongly_is_answered_in_a_sentence(name: str, sentence: str):
    with pytest.raises(rade.data.DataError, match=sentence):
        rade.data.load(name, nodes=3)


def test_the_data_folder_is_the_argument_then_the_environment_then_the_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RADE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert rade.data.data_root() == Path("/somewhere/rade")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert rade.data.data_root() == Path.home() / ".cache" / "rade"
    monkeypatch.setenv("RADE_DATA", "elsewhere")
    assert rade.data.data_root() == Path("elsewhere")
    assert rade.data.data_root("~/here") == Path.home() / "here"


def test_every_real_data_set_has_files_and_a_source_and_pickles_have_checksums():
    for entry in catalogue().values():
        assert bool(required_files(entry.name)) != entry.embedded
        for file in raw_files(entry.name):
            assert file.path.startswith(f"{entry.folder}/")
            assert file.sha256 or not (file.pickled or file.repacked)
            assert _address(entry, file).startswith("https://")
            assert "{" not in _address(entry, file)


def test_no_public_name_is_hidden_by_a_module_of_the_package():
    modules = {module.name for module in pkgutil.iter_modules(rade.data.__path__)}
    for name in modules:
        importlib.import_module(f"rade.data.{name}")
    assert not modules & set(rade.data.__all__)
    assert all(getattr(rade.data, name) is not None for name in rade.data.__all__)


def test_every_data_set_is_listed_with_its_state(root: Path, run):
    code, out, _ = run("datasets", "--data-root", root)
    row = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert (code, tuple(row)) == (0, rade.data.names())
    assert "2,708" in row["cora"]
    assert str(root / "Cora") in row["cora"]
    assert "missing feats.npy" in row["flickr"]
    rows = {row["name"]: row for row in json.loads(run("datasets", "--json", "--data-root", root)[1])}
    assert [rows[name]["state"] for name in ("cora", "flickr", "csbm")] == ["ready", "incomplete", "embedded"]
    assert rows["flickr"]["missing"] == ["Flickr/raw/feats.npy"]
    assert {"level", "metric", "split", "nodes", "edges", "licence", "source"} <= set(rows["cora"])


def test_import_reports_what_is_missing_and_what_needs_no_file(gaps: Path, tmp_path: Path, run):
    code, out, _ = run("datasets", "import", gaps, "--data-root", tmp_path)
    assert code == 0
    assert "cora: 8 imported, 0 already there\n" in out
    assert "flickr: 3 imported, 0 already there; missing: Flickr/raw/feats.npy\n" in out
    again = run("datasets", "--data-root", tmp_path, "import", gaps, "far-pair", "mutag")
    assert again == (0, "far-pair: generated, needs no file\nmutag: 0 imported, 5 already there\n", "")
    code, _, err = run("datasets", "--data-root", tmp_path, "import", gaps, "flickr")
    assert (code, "Flickr/raw/feats.npy is not in the mirror" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "the mirror 'nowhere' is not a folder"),
        ((".", "corra"), "did you mean 'cora'"),
        ((".", "cora"), "has no file of Cora; expected for example Cora/raw/ind.cora"),
        ((), "Missing argument"),
    ],
)
def test_user_errors_of_the_command_are_one_sentence(arguments: tuple[str, ...], sentence: str, run, tmp_path: Path):
    code, _, error = run("datasets", "import", *arguments, "--data-root", tmp_path)
    assert (code, sentence in error, error.count("\n")) == (2, True, 1)
