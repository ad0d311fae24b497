"""Failed runs and diagnoses of a store in its report."""

import json

import pytest
from tests.report.synthetic import MAIN, Experiment, Row, row, save, settings, store

from rade.report import build
from rade.report.beside import read_beside
from rade.report.markdown import markdown
from rade.report.page import page
from rade.report.rows import read_rows
from rade.train.files import save_json

MEASURED = {
    "gap": 0.0, "gap_largest": 0.1, "resistance": 3.0, "commute": None, "beyond": 0.25,
    "steps": [{"distance": -1, "pairs": 3, "sensitivity": 0.1}, {"distance": 0, "pairs": 2, "sensitivity": 1.0},
              {"distance": 1, "pairs": 4, "sensitivity": 0.01}, {"distance": 2, "pairs": 9, "sensitivity": 0.0}],
    "flips": {kind: {"0.3": 0.125} for kind in ("drop", "add", "both")},
}  # fmt: skip
DIAGNOSIS = {
    "format": 1, "dataset": "co<ra", "model": "gcn, none", "nodes": 2708, "edges": 5278, "graphs": 1, "layers": 2,
    "p": 0.5, "q": 0.00072, "notes": ["16 <nodes>"], "operators": {"clean": MEASURED, "rade-ofs": MEASURED},
}  # fmt: skip


def failure(key, **changes):
    told = {"reason": "the loss became <nan>", "when": "2026-01-01T00:00:00+00:00", "command": "rade train"}
    told |= {"protocol": "released", "commit": "", "dirty": False}
    return {"key": key, "settings": settings(), "run": 3, **told, **changes}


@pytest.fixture
def found(tmp_path):
    save([], tmp_path)
    (tmp_path / "failures.json").write_text(json.dumps([failure("a"), failure("b")]))
    save_json(tmp_path / "studies" / "diagnoses" / "cora-1.json", DIAGNOSIS)
    (tmp_path / "studies" / "diagnoses" / "torn.json").write_text('{"format": 1')
    return read_beside(tmp_path, finished={"b"})


def test_a_run_that_finished_later_has_not_failed(found):
    assert [one.key for one in found.failures] == ["a"]


def test_damaged_files_are_named(found):
    assert sorted(problem.name for problem in found.problems) == ["diagnoses/torn.json"]


def test_pages_tell_of_failures_and_diagnoses_and_escape_them(found):
    runs, _ = read_rows(store(2))
    report = build(runs, [MAIN], beside=found)
    html, text = page(report), markdown(report)
    for written in (html, text):
        assert "the loss became &lt;nan&gt;" in written
        assert "co&lt;ra" in written
        assert "sensitivity from beyond 2 edges" in written
        assert "12.5 %" in written
        assert "1 run failed" in written
        assert "<nan>" not in written
    assert "distance</text>" in html


def test_a_store_without_them_says_nothing(tmp_path):
    runs, _ = read_rows(store(2))
    html = page(build(runs, [MAIN], beside=read_beside(save([], tmp_path))))
    assert 'id="failures"' not in html
    assert 'id="diagnoses"' not in html


def test_runs_of_a_stage_fill_no_cell_of_other_tables():
    """Corrupted tests and few labels are not what the paper's tables mean; older rows lack those settings."""
    older = [row(0.8, run=run) for run in range(2)]
    newer = [row(0.81, run=run, test_corrupt="", labels_per_class=0, train_share=0.0) for run in range(2, 4)]
    noisy = [row(0.5, run=run, test_corrupt="0,1", labels_per_class=0, train_share=0.0) for run in range(9)]
    runs, problems = read_rows([*older, *newer, *noisy])
    assert not problems
    plain = build(runs, [MAIN]).tables[0].cells[0]
    assert plain.filled.spread.mean == pytest.approx(80.5)
    assert len(plain.filled.group.runs) == 4


@pytest.mark.parametrize(("measure", "shown"), [("log_loss", 0.6), ("calibration_error", 6.0)])
def test_other_measures_than_the_score_are_shown_from_rows_that_have_them(measure, shown):
    quality = {"log_loss": 0.6, "calibration_error": 0.06}
    rows = [{**row(0.8, run=run), "quality": quality if run else {}} for run in range(3)]
    report = build(read_rows(rows)[0], [Experiment("q", "Quality", (Row("GCN", "none"),), measure=measure)])
    (table,) = report.tables
    filled = table.cells[0].filled
    assert filled.spread.mean == pytest.approx(shown)
    assert filled.spread.count == 2
    assert "less is better" in table.words
    assert table.words in page(report)
