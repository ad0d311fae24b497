"""Which runs stand where: cells, other runs, repeated runs, searches; nothing is left out."""

from dataclasses import replace

import pytest
from tests.report.synthetic import MAIN, cell, line, report, row, store, table

from rade.report import headline
from rade.report.render import markdown
from rade.report.tables import only
from rade.report.words import late

SEARCHED = table(line("tuned", "rade-of-fixed", search={"p": (0.2, 0.3, 0.5)}))


def filled(table):
    return {cell.row.name: cell.filled for cell in table.filled}


def fixed(p, score, count, **others):
    return [row(score, run=run, method="rade-of-fixed", options={"p": p}) | others for run in range(count)]


def test_cells_stand_beside_the_papers_run_or_not():
    found = report(cell(0.8, 0.01, 3, method="none"))
    plain, *others = found.tables[0].cells
    assert plain.gap == pytest.approx(plain.filled.spread.mean - 80.1)
    assert [one.filled for one in others] == [None] * 4
    assert "not run<br>paper 81.08 ± 1.06" in markdown(found)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_another_width_is_a_departure_on_every_backbone(backbone):
    """Those without published widths share another's."""
    own = table(line("net", "none", backbones=(backbone,)), backbones=(backbone,))
    found = report(cell(0.8, 0.01, 3, backbone=backbone, hidden=64), own)
    assert filled(found.tables[0])["net"].departures == ("hidden 64 instead of 512",)
    assert "1 cell, marked *" in markdown(found)
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


def test_a_search_with_one_candidate_chose_nothing():
    assert not report(fixed(0.2, 0.7, 2), SEARCHED).tables


def test_runs_at_other_rates_than_the_protocols_are_another_method():
    own = table(line("w/o GN", "rade-of-fixed"))
    rows = cell(0.8, 0.01, 9, method="rade-of-fixed", options={"p": 0.2, "rho": 0.2})
    assert not report(rows, own).tables
    (found,) = report(rows + cell(0.8, 0.01, 2, method="rade-of-fixed", options={"p": 0.5, "rho": 0.5}), own).tables
    assert len(filled(found)["w/o GN"].group.runs) == 2


@pytest.mark.parametrize("change", [{"corrupt": "0,1"}, {"test_corrupt": "0,1"}, {"protocol": "paper"}])
def test_another_protocol_or_stage_fills_no_cell(change):
    """Corrupted tests and few labels are not what the paper's tables mean; older rows lack those settings."""
    found = report(cell(0.8, 0.01, 3, method="none", **change))
    assert (found.tables, found.empty, len(found.others)) == ((), (MAIN,), 1)
    newer = [row(0.81, run=run, test_corrupt="", labels_per_class=0) for run in range(2, 4)]
    plain = report([row(0.8), row(0.8, run=1), *newer]).tables[0].cells[0]
    assert len(plain.filled.group.runs) == 4


def test_no_run_is_left_out_and_the_newest_numerics_count():
    rows = store(5) + cell(0.5, 0.01, 2, dataset="mine", method="none") + [row(0.9, method="none", numerics=2)]
    found = report(rows)
    placed = {run.key for table in found.tables for run in table.runs}
    apart = {run.key for other in found.others for run in other.group.runs}
    assert placed.isdisjoint(apart)
    assert placed | apart == {one["key"] for one in rows}
    assert max(filled(found.tables[0])["GCN"].scores.by.values()) == 0.9
    assert "repeats a run that is counted already" in markdown(found)


def test_other_measures_are_shown_and_not_judged():
    rows = [{**one, "quality": {"log_loss": 0.6} if one["run"] else {}} for one in store(3)]
    rows[0] |= {"machine": {"cpu": "another"}}
    seconds, loss = report(rows, *(replace(MAIN, measure=name) for name in ("seconds_per_epoch", "log_loss"))).tables
    assert filled(seconds)["RADE-OF"].spread.mean == pytest.approx(0.05)
    assert (filled(loss)["RADE-OF"].spread.count, seconds.comparisons) == (2, ())
    text = markdown(report(rows, seconds.experiment))
    assert "0.050 ± 0.000" in text
    assert "on 2 kinds of processor" in text


def test_few_runs_and_departing_cells_do_not_count_over_data_sets():
    names = ("cora", "citeseer", "pubmed")
    three = replace(MAIN, datasets=names)

    def rows(dataset, count, **other):
        pairs = (("none", 0.7), ("rade-of", 0.8))
        return [one for name, at in pairs for one in cell(at, 0.01, count, dataset=dataset, method=name, **other)]

    (found,) = report(rows("cora", 5) + rows("citeseer", 5) + rows("pubmed", 4), three).tables
    assert [one.datasets for one in found.overall] == [names[:2]]
    (found,) = report(rows("cora", 5) + rows("citeseer", 5, epochs=5), three).tables
    assert not found.overall


def test_some_data_sets_alone():
    rows = store(3) + cell(0.7, 0.01, 3, dataset="citeseer", method="none")
    own = table(line("GCN", "none", settings={"hidden": {"citeseer": 512}}), datasets=("cora", "citeseer"))
    found, tables = only(report(rows).stored, [MAIN, own], ["citeseer"])
    assert {run.settings["dataset"] for run in found.runs} == {"citeseer"}
    assert [one.datasets for one in tables] == [("citeseer",)]


def test_the_headline_is_a_table_of_the_papers_however_full_others_are():
    named = {"Plain": "none", "Node": "drop-node", "OF": "rade-of"}
    own = table(*(line(f"{name} {n}", named[name], settings={"layers": n}) for n in (2, 3, 4) for name in named))
    rows = [one for name in named.values() for n in (2, 3, 4) for one in cell(0.8, 0.01, 2, method=name, layers=n)]
    assert "RADE-OF | gain" in headline(report(rows, own, MAIN)).splitlines()[0]
    assert "OF 3 | gain" in headline(report(rows, own)).splitlines()[0]
    assert "; Plain 3 7" in headline(report(rows, own)).splitlines()[2]  # each gain is over the plain row of its depth
    assert headline(report([])) == "No table with a plain backbone and RADE has been run yet.\n"


def ended(method, end, run, epochs=20):
    """A run that stands at 0.8 until its last ten epochs, which are at `end`."""
    return row(0.8, run=run, done=epochs, method=method, history={"val": [0.8] * (epochs - 10) + [end] * 10})


def test_last_epochs_are_compared_with_plain_training_by_seed():
    ends = {"none": (0.7, 0.7), "drop-edge": (0.71, 0.73), "rade-of": (0.6, 0.6)}
    found = report([ended(method, end, run) for method in ends for run, end in enumerate(ends[method])])
    plain, dropped, rade = late(found)
    assert plain == ("cora", "gcn", "GCN", "2", "13, 20", "80.00", "70.00", "")
    assert dropped[-2:] == ("72.00", "+2.00 [−10.71, 14.71]")  # 2 ± 12.706 · 1.414 / √2
    assert rade[-1] == "−10.00"  # no interval: the difference is the same in all runs
    assert "## When training goes on" in markdown(found)
    short = report([row(0.8, run=run, done=5, method=name) for name in ("none", "drop-edge") for run in range(2)])
    assert list(late(short)) == []
