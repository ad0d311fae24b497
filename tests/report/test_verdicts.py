"""Stores whose truth is known give the verdicts that are true."""

import pytest
from tests.report.synthetic import MAIN, Experiment, Row, cell, row, store

from rade.report import build, read_rows
from rade.report.judge import HINT, SAME, Verdict
from rade.statistics import paired


def report(rows, *experiments):
    runs, problems = read_rows(rows)
    assert not problems
    return build(runs, experiments or (MAIN,))


def found(rows, name, kind="plain"):
    (table,) = report(rows).tables
    return next(one for one in table.comparisons if one.cell.row.name == name and one.kind == kind)


def test_an_effect_of_one_point_is_found():
    one = found(store(20, rade_of=0.01), "RADE-OF")
    assert one.code == "better"
    assert one.result.mean == pytest.approx(1.0, abs=0.3)
    assert one.result.low < 1.0 < one.result.high
    assert one.verdict.startswith("RADE-OF is better than the plain backbone by ")
    assert one.verdict.endswith("; 20 seeds.")


def test_harm_of_one_point_is_found():
    one = found(store(20, rade_of=-0.01), "RADE-OF")
    assert one.code == "worse"
    assert "RADE-OF is worse than the plain backbone by " in one.verdict


def test_no_effect_is_not_told_apart():
    rows = store(20)
    assert {one.code for one in report(rows).comparisons} <= {SAME, HINT}
    one = next(one for one in report(rows).comparisons if one.code == SAME and one.cell.row.name == "RADE-OFS")
    assert "RADE-OFS cannot be told apart from the " in one.verdict
    assert f"would need {one.needed:,} seeds for 80 % power." in one.verdict


@pytest.mark.parametrize(("seeds", "rough"), [(2, True), (9, True), (10, False)])
def test_a_power_estimate_from_few_seeds_is_called_rough(seeds, rough):
    one = Verdict("A", "B", paired([0.0, 1.0, -1.0, 0.5, 0.2, -0.3, 0.4, 0.1, -0.6, 0.3][:seeds]), 0.9)
    assert one.rough is rough
    assert (f"a rough number: {seeds} seeds say little about its size." in str(one)) is rough


def test_false_alarms_stay_within_five_percent_of_tables():
    """60 stores without any effect, 6 comparisons each: at most 8 tables with an alarm (binomial, p < 0.5 %)."""
    tables = 0
    for number in range(60):
        rows = [
            line
            for method in ("none", "drop-edge", "drop-node", "rade-of", "rade-ofs")
            for line in cell(0.8, 0.01, 6, method=method, hidden=number + 1)
        ]
        tables += any(one.code in ("better", "worse") for one in report(rows).comparisons)
    assert tables <= 8


def test_the_best_baseline_is_the_reference():
    rows = store(20, drop_node=0.01, rade_of=0.02)
    one = found(rows, "RADE-OF", "baseline")
    assert one.reference.row.name == "DropNode"
    assert one.code == "better"
    assert one.result.mean == pytest.approx(1.0, abs=0.4)
    assert "the best baseline, DropNode" in one.verdict


def test_differences_are_paired():
    """Seeds' luck is ten times the effect; unpaired, nothing could be seen."""
    rows = cell(0.8, 0.05, 10, method="none", own=0.001) + cell(0.8, 0.05, 10, 0.005, own=0.001, method="rade-of")
    one = found(rows, "RADE-OF")
    assert one.code == "better"
    assert one.cell.filled.spread.std > 2


def test_only_shared_seeds_count():
    rows = cell(0.8, 0.01, 8, method="none") + cell(0.8, 0.01, 5, 0.01, method="rade-of")
    assert found(rows, "RADE-OF").result.count == 5


def test_holm_turns_a_lone_difference_into_a_hint():
    """t = 3.3 on five degrees of freedom: p = 0.02 alone, above 0.05 among six comparisons."""
    rows = [line for line in store(6) if line["settings"]["method"] != "rade-of"]
    plain = [line["test"] for line in rows if line["settings"]["method"] == "none"]
    gains = (0.002, 0.010, 0.004, 0.012, 0.001, 0.007)
    rows += [row(a + b, run=run, method="rade-of") for run, (a, b) in enumerate(zip(plain, gains))]
    one = found(rows, "RADE-OF")
    assert one.result.low > 0
    assert one.code == HINT
    assert "among the 6 comparisons of this table it is not" in one.verdict
    assert one.family == 6


def test_one_run_gives_no_interval():
    one = found([row(0.80, method="none"), row(0.82, method="rade-of")], "RADE-OF")
    assert one.verdict == "RADE-OF and the plain backbone share one run, 2.00 points apart; no interval."


def test_equal_scores_are_said_to_be_equal():
    rows = [row(0.8, run=run, method=method) for run in range(3) for method in ("none", "rade-of")]
    assert found(rows, "RADE-OF").verdict == "RADE-OF scores as the plain backbone in each of 3 seeds."


def test_a_constant_difference_has_no_interval():
    scores = {"none": 0.8, "rade-of": 0.81}
    rows = [row(scores[method], run=run, method=method) for run in range(3) for method in scores]
    assert "is 1.00 points above the plain backbone in each of 3 seeds" in found(rows, "RADE-OF").verdict


FOLDS = Experiment("tu", "MUTAG", (Row("GCN", "none"), Row("RADE-OF", "rade-of")), ("mutag",))


def folds(method, shift, seeds=(0,), count=10):
    """Fold k scores 0.7 + k/100 + shift at epoch 2 of every seed; elsewhere less on average."""
    rows = []
    for seed in seeds:
        for run in range(count):
            top = 0.7 + run / 100 + shift + (0.001 if run % 2 else -0.001) * (seed + 1)
            history = {"val": [top - 0.1, top, top - 0.05], "p": [0.5, 0.5, 0.5]}
            chosen = {"dataset": "mutag", "method": method, "seed": seed}
            rows.append(row(0.99, run=run, folds=10, done=3, history=history, **chosen))
    return rows


def test_folds_are_scored_at_their_common_epoch():
    (table,) = report(folds("none", 0.0), FOLDS).tables
    (filled,) = (cell.filled for cell in table.filled)
    assert filled.scores.epochs == {0: 2}
    assert filled.spread.mean == pytest.approx(100 * 0.745)
    assert filled.scores.rule == "best epoch of the fold-averaged validation curve"


def test_folds_use_the_corrected_variance():
    rows = folds("none", 0.0) + cell_of_folds()
    (table,) = report(rows, FOLDS).tables
    (one,) = table.comparisons
    reach = 2.262157 * one.result.std * (1 / 10 + 1 / 9) ** 0.5
    assert one.result.high - one.result.mean == pytest.approx(reach, rel=1e-5)
    assert one.needed is None
    assert "10 folds" in one.verdict


def cell_of_folds():
    rows = folds("rade-of", 0.01)
    for number, line in enumerate(rows):
        line["history"]["val"] = [value + 0.002 * (number % 3) for value in line["history"]["val"]]
    return rows


def test_repeated_folds_are_averaged_over_repetitions():
    rows = folds("none", 0.0, seeds=(0, 7)) + folds("rade-of", 0.02, seeds=(0, 7))
    (table,) = report(rows, FOLDS).tables
    for cell_ in table.filled:
        assert cell_.filled.spread.count == 10
        assert len(cell_.filled.group.runs) == 20
    (one,) = table.comparisons
    assert (one.result.count, one.repetitions) == (10, 2)
    assert one.result.mean == pytest.approx(2.0)


def test_a_method_that_lacks_folds_fills_no_cell():
    """Folds differ more than methods do; what was run is told apart."""
    rows = folds("none", 0.0) + folds("rade-of", 0.02, count=7)
    found = report(rows, FOLDS)
    assert not found.tables[0].comparisons
    (other,) = found.others
    assert (len(other.group.runs), other.reason) == (7, "some of its folds are missing")
