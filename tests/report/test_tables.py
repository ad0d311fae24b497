"""Which runs stand where: cells, other runs, repeated runs, searches; nothing is left out."""

from dataclasses import replace

import pytest
from tests.report.synthetic import MAIN, Experiment, Row, cell, row, store

from rade.report import build, headline, read_rows
from rade.report.build import reading_order
from rade.report.markdown import markdown


def report(rows, *experiments):
    return build(read_rows(rows)[0], experiments or (MAIN,))


def filled(table):
    return {cell.row.name: cell.filled for cell in table.filled}


def test_cells_stand_beside_the_papers():
    (table,) = report(store(5)).tables
    plain = table.lines[0].cells[0]
    assert plain.published.mean == 80.1
    assert plain.gap == pytest.approx(plain.filled.spread.mean - 80.1)


def test_cells_that_were_not_run_are_shown_as_such():
    found = report(cell(0.8, 0.01, 3, method="none"))
    assert [cell.filled is None for cell in found.tables[0].cells] == [False, True, True, True, True]
    assert "not run<br>paper 81.08 ± 1.06" in markdown(found)


def test_the_protocols_settings_win_over_others_with_more_runs():
    """The released protocol has 512 units on Cora; a wider sweep with more seeds must not take its place."""
    rows = cell(0.8, 0.01, 3, method="none") + cell(0.9, 0.01, 9, method="none", layers=8)
    found = report(rows)
    assert filled(found.tables[0])["GCN"].group.first.settings["layers"] == 2
    (other,) = found.others
    assert len(other.group.runs) == 9


def test_departures_from_the_protocol_are_told():
    found = report(cell(0.8, 0.01, 3, method="none", epochs=50))
    assert filled(found.tables[0])["GCN"].departures == ("epochs 50 instead of 500",)
    assert "1 cell, marked *" in markdown(found)
    assert "- \\* GCN, cora, gcn: epochs 50 instead of 500" in markdown(found)


def test_a_rows_own_settings_are_no_departure_and_must_fit():
    deep = Experiment("deep", "Depth", (Row("8 layers", "none", settings={"layers": 8}),))
    rows = cell(0.8, 0.01, 3, method="none") + cell(0.7, 0.01, 2, method="none", layers=8)
    (table,) = report(rows, deep).tables
    assert filled(table)["8 layers"].departures == ()
    assert len(filled(table)["8 layers"].group.runs) == 2


def test_a_search_takes_the_best_by_validation_not_by_test():
    tuned = Experiment("tuned", "Tuned", (Row("tuned", "rade-of-fixed", search={"p": (0.2, 0.5)}),))
    rows = [row(0.9, run=r, method="rade-of-fixed", options={"p": 0.2}) | {"val": 0.5} for r in range(2)]
    rows += [row(0.7, run=r, method="rade-of-fixed", options={"p": 0.5}) | {"val": 0.6} for r in range(2)]
    rows += [row(0.99, run=r, method="rade-of-fixed", options={"p": 0.4}) for r in range(2)]
    (table,) = report(rows, tuned).tables
    assert filled(table)["tuned"].group.flat["p"] == 0.5
    assert filled(table)["tuned"].tried == 2


def test_a_search_passes_over_settings_that_lack_runs():
    tuned = Experiment("tuned", "Tuned", (Row("tuned", "rade-of-fixed", search={"p": (0.2, 0.3, 0.5)}),))
    rows = [
        row(s, run=r, method="rade-of-fixed", options={"p": p}) for p, s in ((0.2, 0.6), (0.3, 0.7)) for r in (0, 1)
    ]
    rows += [row(0.9, run=0, method="rade-of-fixed", options={"p": 0.5})]
    (table,) = report(rows, tuned).tables
    assert filled(table)["tuned"].group.flat["p"] == 0.3
    assert "(2, 2 of 3 settings)" in markdown(report(rows, tuned))


def test_settings_with_more_runs_than_the_search_are_judged_by_those_of_the_search():
    tuned = Experiment("tuned", "Tuned", (Row("tuned", "rade-of-fixed", search={"p": (0.2, 0.3, 0.5)}),))
    rows = [
        row(s, run=r, method="rade-of-fixed", options={"p": p})
        for p, s, n in ((0.2, 0.6, 2), (0.3, 0.7, 6), (0.5, 0.65, 2))
        for r in range(n)
    ]
    (table,) = report(rows, tuned).tables
    assert filled(table)["tuned"].group.flat["p"] == 0.3
    assert "(2, 3 of 3 settings)" in markdown(report(rows, tuned))
    (beyond,) = report(rows, tuned).others[-1:]
    assert ([run.run for run in beyond.group.runs], beyond.reason[:9]) == ([2, 3, 4, 5], "more runs")


def test_a_search_with_one_candidate_chose_nothing():
    tuned = Experiment("tuned", "Tuned", (Row("tuned", "rade-of-fixed", search={"p": (0.2, 0.5)}),))
    rows = [row(0.7, run=r, method="rade-of-fixed", options={"p": 0.2}) for r in range(2)]
    assert not report(rows, tuned).tables


def test_runs_at_other_rates_than_the_protocols_are_another_method():
    fixed = Experiment("fixed", "Fixed", (Row("w/o GN", "rade-of-fixed"),))
    rows = cell(0.8, 0.01, 9, method="rade-of-fixed", options={"p": 0.2, "rho": 0.2})
    assert not report(rows, fixed).tables
    (table,) = report(rows + cell(0.8, 0.01, 2, method="rade-of-fixed", options={"p": 0.5, "rho": 0.5}), fixed).tables
    assert len(filled(table)["w/o GN"].group.runs) == 2


def test_runs_on_corrupted_graphs_fill_no_table_that_does_not_ask_for_them():
    assert not report(cell(0.5, 0.01, 9, method="none", corrupt="0,1")).tables


def test_another_protocols_runs_stay_out():
    found = report(cell(0.8, 0.01, 3, method="none", protocol="paper"))
    assert not found.tables
    assert found.empty == (MAIN,)
    assert len(found.others) == 1


def test_no_run_is_left_out():
    rows = store(5) + cell(0.5, 0.01, 2, dataset="mine", method="none") + [row(0.8, method="none", numerics=2)]
    found = report(rows)
    placed = {run.key for table in found.tables for cell in table.filled for run in cell.filled.group.runs}
    apart = {run.key for other in found.others for run in other.group.runs}
    assert placed.isdisjoint(apart)
    assert placed | apart == {line["key"] for line in rows} == {run.key for run in found.runs}


def test_the_newest_numerics_count_and_older_ones_are_kept_apart():
    rows = [row(score, method="none", numerics=age) for score, age in ((0.8, 1), (0.9, 3), (0.7, 2))]
    found = report(rows)
    assert filled(found.tables[0])["GCN"].spread.mean == pytest.approx(90)
    assert [other.spread.mean for other in found.others] == pytest.approx([70, 80])
    assert "repeats a run that is counted already" in markdown(found)


def test_threads_and_devices_do_not_split_a_cell():
    rows = [row(0.8, method="none", threads=1), row(0.82, run=1, method="none", threads=4, device="cuda")]
    assert filled(report(rows).tables[0])["GCN"].spread.count == 2


def test_plain_runs_from_the_store_serve_tables_without_a_plain_row():
    ablation = Experiment("ablation", "Ablation", (Row("RADE-OF", "rade-of"), Row("fixed", "rade-of-fixed")))
    rows = store(6) + cell(0.79, 0.01, 6, method="rade-of-fixed")
    (table,) = report(rows, ablation).tables
    assert [(one.cell.row.name, one.kind) for one in table.comparisons] == [
        ("RADE-OF", "plain"), ("fixed", "plain"), ("fixed", "full"),
    ]  # fmt: skip


def test_depths_are_compared_with_their_own_depth():
    methods = {"Plain": "none", "RADE-OF": "rade-of"}
    rows = tuple(Row(f"{name} {n}", methods[name], settings={"layers": n}) for n in (2, 8) for name in methods)
    depth = Experiment("depth", "Depth", rows)
    data = [
        *cell(0.8, 0.01, 4, method="none"), *cell(0.8, 0.01, 4, method="rade-of"),
        *cell(0.5, 0.01, 4, method="none", layers=8), *cell(0.6, 0.01, 4, method="rade-of", layers=8),
    ]  # fmt: skip
    (table,) = report(data, depth).tables
    assert [one.cell.row.name for one in table.comparisons] == ["RADE-OF 2", "RADE-OF 8"]
    assert table.comparisons[1].result.mean == pytest.approx(10, abs=1)
    (table,) = report(data[:8] + data[12:], depth).tables  # no plain runs of depth 8
    assert [one.cell.row.name for one in table.comparisons] == ["RADE-OF 2"]


def test_seconds_are_shown_and_not_judged():
    runtime = replace(MAIN, name="runtime", measure="seconds_per_epoch")
    (table,) = report(store(3), runtime).tables
    assert filled(table)["RADE-OF"].spread.mean == pytest.approx(0.05)
    assert table.comparisons == ()
    text = markdown(report(store(3), runtime))
    assert "0.050 ± 0.000" in text
    assert "kinds of processor" not in text
    rows = store(3)
    rows[0] |= {"machine": {"cpu": "another"}}
    assert "on 2 kinds of processor" in markdown(report(rows, runtime))


def test_a_run_that_another_first_seed_names_otherwise_counts_once():
    rows = [row(0.8, run=3, seed=0, method="none"), row(0.8, run=0, seed=3, method="none")]
    found = report(rows)
    assert [one.seed for one in found.runs] == [3, 3]
    assert len(filled(found.tables[0])["GCN"].group.runs) == 1
    assert "repeats a run that is counted already" in markdown(found)


def test_few_runs_and_a_departing_cell_do_not_count_over_data_sets():
    two = replace(MAIN, datasets=("cora", "citeseer", "pubmed"))

    def rows(dataset, count, **other):
        methods = (("none", 0.7), ("rade-of", 0.8))
        return [
            one
            for method, score in methods
            for one in cell(score, 0.01, count, dataset=dataset, method=method, **other)
        ]

    (table,) = report(rows("cora", 5) + rows("citeseer", 5) + rows("pubmed", 4), two).tables
    assert [one.datasets for one in table.overall] == [("cora", "citeseer")]
    (table,) = report(rows("cora", 5) + rows("citeseer", 5, epochs=5), two).tables
    assert not table.overall


def test_the_headline_has_scores_and_gains():
    text = headline(report(store(20, rade_of=0.01)))
    line = text.splitlines()[2]
    assert line.startswith("| cora, gcn | 79.")
    assert "| +1.0" in line or "| +0.9" in line
    assert headline(report([])) == "No table with a plain backbone and RADE has been run yet.\n"


def test_a_headline_names_both_plain_rows_of_a_table():
    wide = Row("wide", "none", settings={"hidden": 256})
    runs = [*store(5, rade_of=0.01), *cell(0.8, 0.01, 5, method="none", hidden=256)]
    line = headline(report(runs, replace(MAIN, rows=(*MAIN.rows, wide)))).splitlines()[2]
    assert line.startswith("| cora, gcn | GCN 7")
    assert "; wide 8" in line or "; wide 7" in line


def test_main_tables_are_read_first():
    beyond = replace(MAIN, name="a", label="")
    ablation = Experiment("b", "", (Row("RADE-OF", "rade-of"),), label="tab:b")
    main = replace(MAIN, name="c", label="tab:c")
    assert [one.name for one in reading_order([beyond, ablation, main])] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "format 1 was expected, got 2"),
        ({"test": float("nan")}, "test is nan: the run diverged"),
        ({"test": "0.8"}, "test is not what it should be, got '0.8'"),
        ({"run": True}, "run is not what it should be, got True"),
        ({"history": {"val": "abc"}}, "history.val is no list of numbers"),
        ({"folds": 10, "history": {}}, "history.val must hold a finite score for every epoch"),
        ({"settings": {"dataset": "cora"}}, "backbone is missing"),
    ],
)
def test_rows_that_cannot_be_used_are_named(change, reason):
    runs, (problem,) = read_rows([row(0.8, method="none"), row(0.8, run=1, method="none") | change])
    assert len(runs) == 1
    assert reason in problem.reason


def test_a_row_that_is_no_object_is_named():
    assert read_rows([3])[1][0].reason == "a row must be an object, got int"


def test_the_headlines_best_baseline_is_the_one_with_the_largest_paired_gain():
    """DropNode has the highest mean, by a single lucky run; on its own seed it gains nothing."""
    scores = {"none": (0.70, 0.80, 0.72), "drop-edge": (0.71, 0.80, 0.74), "drop-node": (None, 0.80, None)}
    rows = [
        row(score, run=run, method=method)
        for method, found in scores.items()
        for run, score in enumerate(found)
        if score is not None
    ]
    line = headline(report(rows + cell(0.7, 0.01, 3, method="rade-of"))).splitlines()[2]
    assert "| 74.00 ± 5.29 (3) | DropEdge 75.00 ± 4.58 (3) | +1.00 [−1.48, 3.48] |" in line


def test_the_headline_is_a_table_of_the_papers_however_full_others_are():
    named = {"Plain": "none", "Node": "drop-node", "OF": "rade-of"}
    depths = (2, 3, 4, 5)
    own = tuple(Row(f"{name} {n}", named[name], settings={"layers": n}) for n in depths for name in named)
    rows = [one for method in named.values() for n in depths for one in cell(0.8, 0.01, 2, method=method, layers=n)]
    assert "RADE-OF | gain" in headline(report(rows, Experiment("own", "Ours", own), MAIN)).splitlines()[0]
    assert "OF 3 | gain" in headline(report(rows, Experiment("own", "Ours", own))).splitlines()[0]
