"""Pictures of the documentation are drawn by scripts of the repository, for light and for dark pages."""

import json
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rade.commands.questions import QUESTIONS

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "style")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_its_two_pictures(name):
    light, dark = ((FOLDER / f"{name}-{theme}.svg").read_text("utf-8") for theme in ("light", "dark"))
    assert light != dark
    for content in (light, dark):
        ElementTree.fromstring(content)
        assert "<text" in content  # words stay words
        assert "dc:date" not in content


def test_there_are_no_pictures_without_a_script():
    assert {path.stem.rsplit("-", 1)[0] for path in FOLDER.glob("*.svg")} == set(SCRIPTS)


def test_the_picture_of_stored_numbers_is_drawn_again_the_same(tmp_path, monkeypatch):
    """Fonts may differ between machines, so two fresh ones are compared."""
    monkeypatch.syspath_prepend(FOLDER)
    noise = import_module("noise")
    drawn = []
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["noise.py", str(tmp_path)])
        noise.draw("noise", (9.5, 3.2), noise.content)
        drawn.append((tmp_path / "noise-dark.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert b"trusted by features" in drawn[0]


def test_the_stored_numbers_of_the_demo_answer_its_questions():
    scores = json.loads((FOLDER / "demo.json").read_text("utf-8"))["scores"]
    assert list(scores) == [question.title for question in QUESTIONS]
    for question in QUESTIONS:
        assert {question.reference, *question.aside} < set(scores[question.title])
        assert {len(values) for values in scores[question.title].values()} == {10}
