"""The demo ends with a result, a sentence for each difference and a picture; what they say is of `tests/report`."""

import json

from rade.commands.demo import QUESTIONS

TITLES = [question.title for question in QUESTIONS]


def test_demo_ends_with_a_table_a_sentence_for_each_difference_and_a_picture(rade, tmp_path):
    """For people with two seeds, for machines with a single one."""
    code, out, err = rade("demo", "--seeds", 2, "--epochs", 1, "--workers", 1, "--out", "here")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert list(dict.fromkeys(line.split(":")[0] for line in lines[-11:-2])) == TITLES
    assert "9 differences, judged together" in lines[-2]
    assert "picture: here/demo.png" in lines[-1]
    assert (tmp_path / "here/demo.png").read_bytes().startswith(b"\x89PNG")
    scores = json.loads((tmp_path / "here/demo.json").read_text())["scores"]
    assert list(scores) == TITLES
    for question in QUESTIONS:
        rows = scores[question.title]
        assert {question.reference, *question.aside} < set(rows)
        assert all(len(values) == 2 and 0 <= min(values) <= max(values) <= 1 for values in rows.values())
    code, out, err = rade("demo", "--seeds", 1, "--epochs", 1, "--workers", 1, "--json")
    assert (code, err, json.loads(out)["metric"]) == (0, "", "accuracy")


def test_only_what_keeps_the_additions_reaches_five_hops_with_two_layers():
    """Every part has as many rings of each class, so the others are at chance."""
    found = QUESTIONS[1].answer(seed=0, epochs=60)
    two = {row: score for row, score in found.items() if "2 layers" in row}
    assert two == {"plain (2 layers)": 0.2, "RADE-OF (2 layers)": 0.2, "RADE-OFS (2 layers)": 1.0}


def test_ctrl_c_ends_the_demo_with_a_line(rade, monkeypatch):
    def interrupted(*asked: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rade.commands.demo._ask", interrupted)
    code, _, err = rade("demo", "--workers", 1)
    assert (code, err) == (130, "interrupted: nothing was drawn; call again to start anew\n")
