"""The demo ends with a result, a sentence per question and a picture, and says nothing that its numbers do not."""

import json

import pytest

from rade.commands.demo import QUESTIONS, Study, sentences
from rade.commands.questions import far_away

TITLES = [question.title for question in QUESTIONS]


def test_demo_ends_with_a_table_four_sentences_and_a_picture(rade, tmp_path):
    code, out, err = rade("demo", "--seeds", 2, "--epochs", 1, "--workers", 1, "--out", "here")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines[-6:-2]] == TITLES
    assert "9 differences, judged together" in lines[-2]
    assert "picture: here/demo.png" in lines[-1]
    assert (tmp_path / "here/demo.png").read_bytes().startswith(b"\x89PNG")
    scores = json.loads((tmp_path / "here/demo.json").read_text())["scores"]
    assert list(scores) == TITLES
    for question in QUESTIONS:
        rows = scores[question.title]
        assert {question.reference, *question.aside} < set(rows)
        assert all(len(values) == 2 and 0 <= min(values) <= max(values) <= 1 for values in rows.values())


def test_demo_for_machines_with_a_single_seed(rade):
    code, out, err = rade("demo", "--seeds", 1, "--epochs", 1, "--workers", 1, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["metric"] == "accuracy"


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ((0.55, 0.649, 0.748), "worse than plain, −5.1 [−5.3, −4.9]"),
        ((0.5, 0.8, 0.8), "not distinguishable from plain, 0.0 [−24.8, 24.8]"),
        ((0.7, 0.8, 0.9), "+10.0 to plain in each of 3 seeds"),
        ((0.6, 0.7, 0.8), "as plain in each of 3 seeds"),
    ],
)
def test_sentences_follow_the_interval(scores, words):
    plain = (0.6, 0.7, 0.8)
    every = {question.title: {question.reference: plain, "other": scores} for question in QUESTIONS}
    said = [f"{one.title}: other: {words.replace('plain', one.reference)}." for one in QUESTIONS]
    assert list(sentences(Study(every)))[:4] == said


def test_only_what_keeps_the_additions_reaches_five_hops_with_two_layers():
    """Every part has as many rings of each class, so the others are at chance."""
    found = far_away(seed=0, epochs=60)
    two = {row: score for row, score in found.items() if "2 layers" in row}
    assert two == {"plain (2 layers)": 0.2, "RADE-OF (2 layers)": 0.2, "RADE-OFS (2 layers)": 1.0}


def test_ctrl_c_ends_the_demo_with_a_line(rade, monkeypatch):
    def interrupted(*asked: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rade.commands.demo._ask", interrupted)
    code, _, err = rade("demo", "--workers", 1)
    assert (code, err) == (130, "interrupted: nothing was drawn; call again to start anew\n")
