"""The demo ends with a result, a verdict and a picture, and says nothing that its numbers do not."""

import json

import pytest

from rade.commands.demo import CONDITIONS, FAR, METHODS, Stress, verdicts


def test_demo_ends_with_a_table_a_verdict_and_a_picture(rade, tmp_path):
    code, out, err = rade("demo", "--graphs", 2, "--epochs", 2, "--out", "here")
    assert (code, err) == (0, "")
    for method in METHODS[1:]:
        assert f"{method} against none: " in out
    assert "16 differences, judged together" in out
    assert "picture: here/demo.png" in out
    assert (tmp_path / "here/demo.png").read_bytes().startswith(b"\x89PNG")
    scores = json.loads((tmp_path / "here/demo.json").read_text())["scores"]
    assert {method: tuple(of) for method, of in scores.items()} == dict.fromkeys(METHODS, (*CONDITIONS, FAR))
    assert all(0 < score < 1 for of in scores.values() for values in of.values() for score in values)


def test_demo_for_machines_and_with_a_single_graph(rade):
    code, out, err = rade("demo", "--graphs", 1, "--epochs", 1, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["metric"] == "accuracy"


@pytest.mark.parametrize(
    ("scores", "word"),
    [
        ((0.65, 0.751, 0.852), "better"),
        ((0.55, 0.649, 0.748), "worse"),
        ((0.5, 0.8, 0.8), "not told apart"),
        ((0.7, 0.8, 0.9), "+10.0 in every graph"),
    ],
)
def test_verdicts_follow_the_interval(scores, word):
    study = Stress({"none": {"clean": (0.6, 0.7, 0.8)}, "dropout": {"clean": scores}}, "accuracy")
    assert verdicts(study)[0] == f"dropout against none: {word}: clean"


def test_verdicts_are_grouped():
    plain = {"clean": (0.6, 0.7, 0.8), "far": (0.2, 0.2, 0.2), "near": (0.5, 0.6, 0.7)}
    other = {"clean": (0.5, 0.8, 0.8), "far": (1.0, 1.0, 1.0), "near": (0.5, 0.7, 0.6)}
    line = verdicts(Stress({"none": plain, "rade-ofs": other}, "accuracy"))[0]
    assert line == "rade-ofs against none: +80.0 in every graph: far; not told apart: clean, near"


def test_only_what_keeps_the_additions_hears_five_hops_away(rade):
    """With two layers nothing else can; every part has as many rings of each class, so the others are at chance."""
    out = json.loads(rade("demo", "--graphs", 1, "--epochs", 60, "--json")[1])["scores"]
    assert {method: of[FAR][0] for method, of in out.items()} == {**dict.fromkeys(METHODS, 0.2), "rade-ofs": 1.0}


def test_damaged_graphs_are_scored_worse_than_the_clean_one(rade):
    """What the conditions are for: a model loses accuracy where its graph is damaged."""
    out = json.loads(rade("demo", "--graphs", 2, "--epochs", 15, "--json")[1])["scores"]["none"]
    mean = {name: sum(values) for name, values in out.items()}
    assert max(mean["half missing"], mean["half spurious"]) < mean["clean"]


def test_demo_looks_at_its_folder_before_it_trains(rade, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = rade("demo", "--out", "file")
    assert code in (2, 3)
    assert "graph 1" not in out
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


def test_demo_refuses_what_it_cannot_do(rade):
    code, _, err = rade("demo", "--graphs", 0)
    assert code == 2
    assert "--graphs" in err
    assert len(err.splitlines()) == 1
