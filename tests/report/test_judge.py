"""One judge: whoever prints a comparison of the same runs prints the same interval and the same sentence."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.report.synthetic import cell, line, report, row, table

import rade
from rade.commands.demo import QUESTIONS, judged
from rade.experiment.store import open_store
from rade.statistics import fold_ratio, paired
from rade.train.record import RunRecord

RESULTS = Path(__file__).parents[2] / "results"
TABLE = table(line("none", "none"), line("rade-of", "rade-of"), datasets=("proteins",))


def stored(method):
    """Validation curves of the ten stored folds of PROTEINS, GCN, at their first, best common and last epoch."""
    found = open_store(RESULTS).records(dataset="proteins", backbone="gcn", method=method)
    curves = np.array([one.history["val"] for one in found])
    return curves[:, [0, curves.mean(0).argmax(), -1]].tolist()


FOLDS = {method: stored(method) for method in ("none", "rade-of")}


def rows(curves, folds):
    """Folds, which hold the score of another epoch than their best common one; or seeds, scored at the second."""
    rates, scored = {name: [0.0] * 3 for name in "pq"}, -1 if folds else 1
    return [
        row(curve[scored], run, folds, 3, dataset="proteins", method=method, history={"val": curve, **rates})
        for method, found in curves.items()
        for run, curve in enumerate(found)
    ]


def told_by(curves, folds):
    """What `rade train`, the report, `rade.compare` and, of seeds, the demo say."""
    records = [RunRecord.model_validate(one) for one in rows(curves, folds)]
    of_method = {name: [one for one in records if one.settings["method"] == name] for name in curves}
    yield from rade.Comparison.of(of_method).differences.values()
    yield report(rows(curves, folds), TABLE).tables[0].comparisons[0].verdict
    runs = tuple(RunRecord.model_validate(one) for one in rows(curves, 0))
    yield rade.Comparison(runs, "none", fold_ratio(folds)).differences["rade-of"]
    if not folds:
        scores = {method: [curve[1] for curve in found] for method, found in curves.items()}
        named = {one.title: {one.reference: scores["none"], "rade-of": scores["rade-of"]} for one in QUESTIONS}
        yield from judged(named).values()


@pytest.mark.parametrize(("folds", "interval"), [(10, "+0.90 [−1.59, 3.39]"), (0, "+0.90 [−0.81, 2.62]")])
def test_the_same_runs_have_one_interval(folds, interval):
    found = [str(one.result) for one in told_by(FOLDS, folds)]
    assert found == [interval] * (3 if folds else 3 + len(QUESTIONS))
    if folds:
        for one in list(told_by(FOLDS, folds))[:2]:
            assert "0.90 points, 95 % interval −1.59 to 3.39; 10 folds." in str(one)


def test_only_shared_seeds_count_and_differences_are_paired():
    """Seeds' luck is ten times the effect; unpaired, nothing could be seen."""
    rows = cell(0.8, 0.05, 10, method="none", own=0.001) + cell(0.8, 0.05, 8, 0.005, own=0.001, method="rade-of")
    one = next(one for one in report(rows).tables[0].comparisons if one.kind == "plain")
    assert (one.verdict.code, one.verdict.result.count) == ("better", 8)
    assert one.cell.spread.std > 2


def test_missing_folds_fill_no_cell():
    lacking = report(rows(FOLDS, 10)[:-3], TABLE)
    assert not lacking.tables[0].comparisons
    assert lacking.others == 7


@pytest.mark.parametrize("ratio", [0.0, 1 / 9])
def test_the_paired_test_is_scipys_and_nadeau_and_bengios(ratio):
    """Between folds the variance of the mean is s² (1/10 + 1/9), not s²/10: intervals widen, and t shrinks."""
    differences = np.random.default_rng(0).normal(0.4, 1.0, 10)
    found, expected = paired(list(differences), ratio), stats.ttest_1samp(differences, 0.0)
    widening = (1 + 10 * ratio) ** 0.5
    mean = differences.mean()
    reach = widening * (expected.confidence_interval(0.95).high - mean)
    assert (found.low, found.high) == pytest.approx((mean - reach, mean + reach), rel=1e-9)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(expected.statistic) / widening, 9), rel=1e-9)
