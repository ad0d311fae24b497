"""Pictures of the documentation are drawn by scripts of the repository, for light and for dark pages."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

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
    assert {path.stem.rsplit("-", 1)[0] for path in FOLDER.glob("*.svg")} == set(SCRIPTS) == {
        "jacobian",
        "noise",
        "rates",
        "views",
    }


def test_the_picture_of_stored_numbers_is_drawn_again_the_same(tmp_path):
    """On one machine: fonts may differ between machines, so two fresh ones are compared."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    drawn = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        command = [sys.executable, str(FOLDER / "noise.py"), str(tmp_path / str(number))]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        drawn.append((tmp_path / str(number) / "noise-dark.svg").read_bytes())
    assert drawn[0] == drawn[1]
