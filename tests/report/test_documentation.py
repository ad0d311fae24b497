"""What the documentation shows of stored runs and studies is what our scripts make of them, byte for byte.

If one of these fails: `make report`, look at what changed, commit it.
"""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    """A script of the repository as a module."""
    for folder in ("benchmarks", "docs"):
        monkeypatch.syspath_prepend(ROOT / folder)
    return import_module


def test_regenerating_the_results_and_the_tables_of_noisy_graphs_changes_nothing(rade, script, tmp_path):
    assert rade("report", ROOT / "results", "--out", tmp_path, "--format", "md")[0] == 0
    for page, content in (script("refresh").pages(tmp_path) | script("draw_noisy").pages()).items():
        assert page.read_text("utf-8") == content, f"{page.name} is not what results/ gives: run `make report`"


def test_the_page_on_rate_rules_is_what_the_store_gives(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rate_rules.py", "--check"])
    with pytest.raises(SystemExit) as stopped:
        script("rate_rules").main()
    assert stopped.value.code == 0


def test_the_table_of_molecules_is_that_of_the_stored_runs(script):
    molhiv = script("benchmarks.molhiv")
    rows = script("benchmarks.study").lines(ROOT / "results/studies/molhiv/molhiv.jsonl")
    assert "\n".join(molhiv.table(rows)) in (ROOT / "docs/layers.md").read_text("utf-8")
