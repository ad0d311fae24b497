"""Names, aliases, roots and errors."""

from pathlib import Path

import pytest

import rade.data
from rade.data.catalogue import _plain, catalogue, members
from rade.data.files.manifest import raw_files, required_files
from rade.errors import RadeError

PAPER = [
    *("cora", "citeseer", "pubmed", "cs", "computer", "physics", "flickr", "ogbn-arxiv"),
    *("mutag", "proteins", "imdb-b", "imdb-m", "ogbg-molhiv", "peptides-func"),
]


FURTHER = ["minesweeper", "tolokers", "chameleon-filtered", "squirrel-filtered", "nci1", "arxiv-structure"]


def test_the_papers_data_sets_further_ones_and_the_synthetic_ones_are_listed():
    synthetic = [entry.name for entry in catalogue().values() if entry.embedded]
    assert rade.data.names() == (*PAPER, *FURTHER, *synthetic)
    assert set(rade.data.names(grouped=True)) == set(catalogue())
    assert len(rade.data.names(grouped=True)) == len(rade.data.names()) + 9 * 6


def test_no_two_data_sets_share_a_spelling():
    entries = catalogue().values()
    spellings = [_plain(text) for e in entries for text in {_plain(t): t for t in (e.name, e.title, *e.aliases)}]
    assert len(spellings) == len(set(spellings))


def test_a_group_is_no_data_set_but_names_its_members():
    with pytest.raises(rade.data.DataError, match=r"Cora-Meta is a group; name one of cora-meta-0, cora-meta-0\.05, "):
        rade.data.load("Cora-Meta")
    assert [entry.name for entry in members("cora_ml-meta")][-1] == "cora-ml-meta-0.25"
    assert [entry.name for entry in members("cora")] == ["cora"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Cora", "cora"),
        ("CITESEER", "citeseer"),
        ("Computers", "computer"),
        ("computer", "computer"),
        ("Amazon-Computers", "computer"),
        ("Coauthor CS", "cs"),
        ("imdb-b", "imdb-b"),
        ("IMDB-BINARY", "imdb-b"),
        ("IMDB_MULTI", "imdb-m"),
        ("ogbn_arxiv", "ogbn-arxiv"),
        ("molhiv", "ogbg-molhiv"),
        ("PeptidesFunc", "peptides-func"),
        ("Chameleon (filtered)", "chameleon-filtered"),
        ("cora_meta_0.25", "cora-meta-0.25"),
        ("PolBlogs-Nettack-3", "polblogs-nettack-3"),
    ],
)
def test_case_punctuation_and_aliases_do_not_matter(spelling: str, name: str):
    assert rade.data.resolve(spelling).name == name


@pytest.mark.parametrize(("wrong", "right"), [("corra", "cora"), ("pubmet", "pubmed"), ("arxive", "ogbn-arxiv")])
def test_an_unknown_name_is_answered_with_the_nearest_one(wrong: str, right: str):
    with pytest.raises(rade.data.DataError, match=f"unknown data set '{wrong}'; did you mean '{right}'"):
        rade.data.load(wrong)


def test_a_name_that_is_near_to_none_gets_the_list_alone():
    with pytest.raises(rade.data.DataError, match=r"unknown data set 'nosuch'\. Known names: cora, citeseer"):
        rade.data.load("nosuch")


def test_data_errors_are_user_errors_and_value_errors():
    assert issubclass(rade.data.DataError, RadeError)
    assert issubclass(rade.data.DataError, ValueError)


def test_the_root_is_the_argument_then_the_environment_then_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RADE_DATA", raising=False)
    assert rade.data.data_root() == Path("data")
    monkeypatch.setenv("RADE_DATA", "elsewhere")
    assert rade.data.data_root() == Path("elsewhere")
    assert rade.data.data_root("here") == Path("here")


def test_every_real_data_set_has_a_manifest_and_pickles_have_checksums():
    for entry in catalogue().values():
        assert bool(required_files(entry.name)) != entry.embedded
        for file in raw_files(entry.name):
            base = catalogue()[entry.base].folder if entry.base else entry.folder
            assert file.path.startswith((f"{entry.folder}/", f"{base}/"))
            assert file.sha256 or not (file.pickled or file.repacked)


def test_options_are_for_synthetic_data_sets():
    with pytest.raises(rade.data.DataError, match="fixed content"):
        rade.data.load("cora", nodes=3)
    with pytest.raises(rade.data.DataError, match="csbm has no option size; its options are nodes"):
        rade.data.load("csbm", size=3)


def test_no_public_name_is_hidden_by_a_module_of_the_package():
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(rade.data.__path__):
        importlib.import_module(f"rade.data.{module.name}")
    assert not {module.name for module in pkgutil.iter_modules(rade.data.__path__)} & set(rade.data.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rade.data.nothing  # noqa: B018
