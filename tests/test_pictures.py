"""Pictures of the documentation are drawn by scripts of the repository, for light and for dark pages."""

import json
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


def test_the_stored_numbers_of_the_demo_answer_its_questions():
    scores = json.loads((FOLDER / "demo.json").read_text("utf-8"))["scores"]
    assert list(scores) == [question.title for question in QUESTIONS]
    for question in QUESTIONS:
        assert {question.reference, *question.aside} < set(scores[question.title])
        assert {len(values) for values in scores[question.title].values()} == {10}
