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


def test_regenerating_the_results_changes_nothing(rade, script, tmp_path):
    assert rade("report", ROOT / "results", "--out", tmp_path, "--format", "md")[0] == 0
    for page, content in script("refresh").pages(tmp_path).items():
        assert page.read_text("utf-8") == content, f"{page.name} is not what results/ gives: run `make report`"


def test_the_page_on_rate_rules_is_what_the_store_gives(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rate_rules.py", "--check"])
    with pytest.raises(SystemExit) as stopped:
        script("rate_rules").main()
    assert stopped.value.code == 0


def test_the_tables_of_noisy_graphs_hold_what_is_stored(script):
    for path, content in script("draw_noisy").pages().items():
        assert path.read_text("utf-8") == content, f"{path.name} is not what benchmarks/draw_noisy.py writes"


def test_gains_on_noisy_graphs_are_paired_and_less_those_on_the_clean_graph(script):
    def row(seed, corruption, **accuracies):
        scores = {way: {"accuracy": value, "loss": 1.0} for way, value in accuracies.items()}
        model = {"dataset": "cora", "backbone": "gcn", "method": "none", "trained": "clean"}
        return {**model, "seed": seed, "corruption": corruption, "share": 0.5, "scores": scores}

    found = script("noisy_rows")
    rows = [row(1, "clean", plain=80.0, cut=79.0), row(2, "clean", plain=82.0, cut=82.0)]
    rows += [row(1, "add30", plain=70.0, cut=75.0), row(2, "add30", plain=71.0, cut=73.0), row(3, "add30", plain=9.0)]
    store = found.Store.of(rows)
    (key,) = store.cells
    assert found.gains(store, key, "add30", "cut") == {1: 6.0, 2: 2.0}
    assert found.shown({1: 6.0, 2: 2.0}, 2) == "+4.0 ± 2.0"


def test_the_table_of_molecules_is_that_of_the_stored_runs(script):
    molhiv = script("benchmarks.molhiv")
    rows = list(molhiv.lines(ROOT / "results/studies/molhiv/molhiv.jsonl"))
    assert molhiv.table(rows) in (ROOT / "docs/layers.md").read_text("utf-8")
