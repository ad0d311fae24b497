"""Pictures of the documentation are drawn by scripts of the repository, for light and for dark pages."""

import json
from pathlib import Path
from xml.etree import ElementTree

from rade.commands.questions import QUESTIONS

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "style")


def test_every_script_has_its_two_pictures_and_every_picture_a_script():
    pictures = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.svg")}
    assert set(pictures) == {f"{name}-{theme}" for name in SCRIPTS for theme in ("light", "dark")}
    assert len(set(pictures.values())) == len(pictures)
    for content in pictures.values():
        ElementTree.fromstring(content)
        assert "<text" in content  # words stay words
        assert "dc:date" not in content


def test_the_stored_numbers_of_the_demo_answer_its_questions():
    scores = json.loads((FOLDER / "demo.json").read_text("utf-8"))["scores"]
    assert list(scores) == [question.title for question in QUESTIONS]
    for question in QUESTIONS:
        assert {question.reference, *question.aside} < set(scores[question.title])
        assert {len(values) for values in scores[question.title].values()} == {10}
