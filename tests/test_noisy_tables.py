"""The tables of noisy graphs say what the stored rows say; the competitors beside them are what they should be."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from rade.testing import GRAPHS

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return import_module


def row(seed: int, corruption: str, **accuracies: float) -> dict[str, Any]:
    scores = {way: {"accuracy": value, "loss": 1.0} for way, value in accuracies.items()}
    model = {"dataset": "cora", "backbone": "gcn", "method": "none", "trained": "clean"}
    return {**model, "seed": seed, "corruption": corruption, "share": 0.5, "scores": scores}


def test_the_pages_hold_what_is_stored(benchmarks):
    """`make report` writes them."""
    found: ModuleType = benchmarks("draw_noisy")
    for path, content in found.pages().items():
        assert path.read_text("utf-8") == content, f"{path.name} is not what benchmarks/draw_noisy.py writes"


def test_no_stored_row_is_left_out(benchmarks):
    """Every model and graph of every file has its line: as many seeds are counted as there are rows."""
    found, rows = benchmarks("draw_noisy"), benchmarks("noisy_rows")
    names = ("table", "rows", "attacked")
    stored = {rows.key_of(one) for name in names for one in rows.read(found.ROWS / f"{name}.jsonl.gz")}
    page = (found.ROWS / "tables.md").read_text("utf-8").split("## Methods")[0]
    lines = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert sum(int(cells[1]) for cells in lines if cells[1].isdigit()) == len(stored)


def test_gains_are_paired_and_less_those_on_the_clean_graph(benchmarks):
    found = benchmarks("noisy_rows")
    rows = [row(1, "clean", plain=80.0, cut=79.0), row(2, "clean", plain=82.0, cut=82.0)]
    rows += [row(1, "add30", plain=70.0, cut=75.0), row(2, "add30", plain=71.0, cut=73.0), row(3, "add30", plain=9.0)]
    store = found.Store.of([*rows, row(1, "add30", plain=70.0, known=71.0)])  # a later row adds its column
    (key,) = store.cells
    assert found.gains(store, key, "add30", "cut") == {1: 6.0, 2: 2.0}
    assert found.gains(store, key, "clean", "cut") == {1: -1.0, 2: 0.0}
    assert store.ways(key) == {"plain", "cut", "known"}
    assert found.shown({1: 6.0, 2: 2.0}, 2) == "+4.0 ± 2.0"
    assert found.shown({1: 6.0}, 2) == "+6.0 (1)"
    replaced = found.Store.of([*rows, row(1, "add30", plain=60.0)])  # another plain result: nothing is mixed
    assert found.gains(replaced, key, "add30", "cut") == {2: 2.0}


def test_a_cut_takes_edges_with_nothing_in_common_together(benchmarks):
    graph = GRAPHS["cycle-chord"]
    order = (graph.pattern.source + graph.pattern.target).float()  # equal for both directions
    for share in (0.05, 0.3, 0.6):
        near = torch.where(order < 4, 0.0, order)
        left = benchmarks("noisy").cut(near, graph, share)
        kept = int((near > 0).sum())
        assert left.pattern.size <= kept
        assert share == 0.6 or left.pattern.size == kept
