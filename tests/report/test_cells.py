"""Which runs stand where: cells, repeated runs, searches. The stored runs hold the rest, byte for byte."""

from dataclasses import replace

import pytest
from tests.report.synthetic import MAIN, cell, line, report, row, store, table

from rade.report.render import markdown

SEARCHED = table(line("tuned", "rade-of-fixed", search={"p": (0.2, 0.3, 0.5)}))


def filled(table):
    return {cell.row.name: cell for cell in table.filled}


def fixed(p, score, count, **others):
    return [row(score, run=run, method="rade-of-fixed", options={"p": p}) | others for run in range(count)]


@pytest.mark.parametrize("backbone", ["gcn", "sgc", "gin-lin", "sage"])
def test_another_width_is_a_departure_on_every_backbone(backbone):
    """Those without published widths share another's."""
    own = table(line("net", "none", backbones=(backbone,)), backbones=(backbone,))
    found = report(cell(0.8, 0.01, 3, backbone=backbone, hidden=64), own)
    assert filled(found.tables[0])["net"].departures == ("hidden 64 instead of 512",)
    assert f"- \\* net, cora, {backbone}: hidden 64 instead of 512" in markdown(found)


@pytest.mark.parametrize(
    ("rows", "chosen", "told"),
    [
        # By validation, not by test; a candidate that is no part of the search does not count.
        (fixed(0.2, 0.9, 2, val=0.5) + fixed(0.5, 0.7, 2, val=0.6) + fixed(0.4, 0.99, 2), 0.5, "(2, 2 of 3 settings)"),
        # A candidate that lacks runs is passed over.
        (fixed(0.2, 0.6, 2) + fixed(0.3, 0.7, 2) + fixed(0.5, 0.9, 1), 0.3, "(2, 2 of 3 settings)"),
        # Settings with more runs than the search are judged by those of the search.
        (fixed(0.2, 0.6, 2) + fixed(0.3, 0.7, 6) + fixed(0.5, 0.65, 2), 0.3, "(2, 3 of 3 settings)"),
    ],
)
def test_a_search_takes_the_best_candidate_by_validation(rows, chosen, told):
    found = report(rows, SEARCHED)
    assert filled(found.tables[0])["tuned"].group.flat["p"] == chosen
    assert told in markdown(found)
    assert not report(fixed(0.2, 0.7, 2), SEARCHED).tables  # of one candidate nothing was chosen


@pytest.mark.parametrize("change", [{"corrupt": "0,1"}, {"test_corrupt": "0,1"}, {"protocol": "paper"}])
def test_another_protocol_or_stage_fills_no_cell(change):
    """Corrupted tests and few labels are not what the paper's tables mean; older rows lack those settings."""
    found = report(cell(0.8, 0.01, 3, method="none", **change))
    assert (found.tables, found.others) == ((), 3)
    newer = [row(0.81, run=run, test_corrupt="", labels_per_class=0) for run in range(2, 4)]
    plain = report([row(0.8), row(0.8, run=1), *newer]).tables[0].cells[0]
    assert len(plain.runs) == 4


def test_every_run_is_counted_and_the_newest_numerics_count():
    rows = store(5) + cell(0.5, 0.01, 2, dataset="mine", method="none") + [row(0.9, method="none", numerics=2)]
    found = report(rows)
    placed = {run.key for table in found.tables for run in table.runs}
    assert len(placed) + found.others == len(rows)
    assert "3 runs in no cell" in markdown(found)
    assert max(filled(found.tables[0])["GCN"].scores.values()) == 0.9


def test_times_are_shown_and_not_judged():
    rows = store(3)
    rows[0] |= {"machine": {"cpu": "another"}}
    (seconds,) = report(rows, replace(MAIN, measure="seconds_per_epoch")).tables
    assert filled(seconds)["RADE-OF"].spread.mean == pytest.approx(0.05)
    assert seconds.comparisons == ()
    assert "on 2 kinds of processor" in markdown(report(rows, seconds.experiment))
