"""What the documentation shows of the stored runs is what `rade report` makes of them, byte for byte."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def script(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_regenerating_the_results_changes_nothing(rade, tmp_path):
    """If this fails: `make report`, look at what changed, commit it."""
    assert rade("report", ROOT / "results", "--out", tmp_path, "--format", "md")[0] == 0
    for page, content in script("docs/refresh.py").pages(tmp_path).items():
        assert page.read_text("utf-8") == content, f"{page.name} is not what results/ gives: run `make report`"


def test_a_page_without_its_block_is_refused(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results.md").write_text("no block")
    (tmp_path / "headline.md").write_text("| a |")
    refresh = script("docs/refresh.py")
    monkeypatch.setattr(refresh, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="must hold one block <!-- headline -->"):
        refresh.pages(tmp_path)


def test_the_page_on_rate_rules_is_what_the_store_gives(monkeypatch):
    """If this fails: `make report`, look at what changed, commit it."""
    monkeypatch.setattr(sys, "argv", ["rate_rules.py", "--check"])
    with pytest.raises(SystemExit) as stopped:
        script("benchmarks/rate_rules.py").main()
    assert stopped.value.code == 0
