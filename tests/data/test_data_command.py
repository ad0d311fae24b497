"""`rade datasets`, as a user runs it."""

import json
from pathlib import Path

import pytest

from rade.cli import main
from rade.data import names


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


def test_the_table_lists_every_data_set_or_its_group_with_its_state(root: Path, capsys: pytest.CaptureFixture[str]):
    assert run("datasets", "--data-root", root) == 0
    *lines, footnote = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines[1:]]
    assert listed[:-9] == list(names())
    assert listed[-9:][::8] == ["cora-meta-0..0.25", "pubmed-nettack-0..5"]
    row = {line.split()[0]: line for line in lines}
    assert "2,708" in row["cora"]
    assert str(root / "Cora") in row["cora"]
    assert "missing feats.npy" in row["flickr"]
    assert "missing node-feat.csv.gz" in row["ogbn-arxiv"]
    assert "structure only" in row["arxiv-structure"]
    assert "generated" in row["csbm"]
    assert "CC BY-NC 4.0" in row["peptides-func"]
    assert "5,069-6,246" in row["cora-meta-0..0.25"]
    assert footnote.startswith(".. stands for several data sets, as in pubmed-nettack-0, pubmed-nettack-1, ")


def test_a_group_is_ready_when_all_of_it_is(gaps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("datasets", "import", gaps, "cora-meta", "citeseer-meta-0.1", "--data-root", tmp_path) == 0
    out = capsys.readouterr().out
    assert out.splitlines() == ["cora-meta: 7 imported, 0 already there", "citeseer-meta: 3 imported, 0 already there"]
    (tmp_path / "adversarial/meta/cora_meta_adj_0.2.npz").unlink()
    assert run("datasets", "--data-root", tmp_path) == 0
    row = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "missing cora_meta_adj_0.2.npz " in row["cora-meta-0..0.25"]
    assert "missing citeseer_meta_adj_0.05.npz, citeseer_meta_adj_0.15.npz" in row["citeseer-meta-0..0.25"]
    assert "not here" in row["polblogs-meta-0..0.25"]


@pytest.mark.parametrize("words", [("datasets",), ("datasets", "list")])
def test_json_has_one_record_per_data_set(words: tuple[str, ...], root: Path, capsys: pytest.CaptureFixture[str]):
    assert run(*words, "--json", "--data-root", root) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert tuple(rows) == names(grouped=True)
    assert (rows["cora"]["state"], rows["flickr"]["state"]) == ("ready", "incomplete")
    assert (rows["csbm"]["state"], rows["csbm"]["files"]) == ("embedded", None)
    assert rows["flickr"]["missing"] == ["Flickr/raw/feats.npy"]
    assert {"level", "metric", "split", "nodes", "edges", "licence", "source"} <= set(rows["cora"])


def test_an_empty_root_has_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("datasets", "--json", "--data-root", tmp_path) == 0
    states = {row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states == {"absent", "embedded"}


def test_import_all_reports_what_is_missing(gaps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("datasets", "import", gaps, "--data-root", tmp_path) == 0
    out = capsys.readouterr().out
    assert "cora: 8 imported, 0 already there\n" in out
    assert "flickr: 3 imported, 0 already there; missing: Flickr/raw/feats.npy\n" in out
    assert run("datasets", "import", gaps, "cora", "--data-root", tmp_path, "--json") == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"present"}


def test_a_wanted_data_set_that_is_incomplete_is_an_error(
    gaps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("datasets", "--data-root", tmp_path, "import", gaps, "flickr") == 2
    assert "Flickr/raw/feats.npy is not in the mirror" in capsys.readouterr().err
    assert (tmp_path / "Flickr/raw/role.json").is_file()


def test_importing_a_generated_data_set_says_that_it_needs_no_file(
    mirror: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("datasets", "import", mirror, "far-pair", "mutag", "--data-root", tmp_path) == 0
    out = capsys.readouterr().out
    assert out.splitlines() == ["far-pair: generated, needs no file", "mutag: 5 imported, 0 already there"]


def test_an_altered_file_is_one_sentence_and_exit_code_two(
    mirror: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "m/MUTAG/raw").mkdir(parents=True)
    (tmp_path / "m/MUTAG/raw/MUTAG_A.txt").write_text("1, 2\n")
    assert run("datasets", "import", tmp_path / "m", "--data-root", tmp_path / "root") == 2
    error = capsys.readouterr().err
    assert "MUTAG_A.txt below" in error
    assert "is truncated" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "the mirror 'nowhere' is not a folder"),
        ((".", "corra"), "did you mean 'cora'"),
        ((), "Missing argument"),
    ],
)
def test_user_errors_are_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert run("datasets", "import", *arguments, "--data-root", tmp_path) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("words", [("datasets",), ("datasets", "import"), ("datasets", "list")])
def test_help_has_examples(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert run(*words, "--help") == 0
    assert "Examples:" in capsys.readouterr().out
