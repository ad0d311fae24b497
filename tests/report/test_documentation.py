"""What the documentation shows of the stored runs is what `rade report` makes of them, byte for byte."""

import importlib.util
from pathlib import Path

import pytest

from rade.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def refresh():
    """docs/refresh.py as a module."""
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_regenerating_the_results_changes_nothing(refresh, tmp_path):
    """If this fails: `make report`, look at what changed, commit it."""
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(ROOT / "results"), "--out", str(tmp_path), "--format", "md"])
    assert stopped.value.code == 0
    for page, content in refresh.pages(tmp_path).items():
        assert page.read_text("utf-8") == content, f"{page.name} is not what results/ gives: run `make report`"


def test_a_readme_without_its_block_is_refused(refresh, tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("no block")
    (tmp_path / "headline.md").write_text("| a |")
    monkeypatch.setattr(refresh, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="must hold one block <!-- headline -->"):
        refresh.pages(tmp_path)
