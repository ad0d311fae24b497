"""One judge: whoever prints a comparison of the same runs prints the same interval and the same sentence."""

import json
from pathlib import Path

import pytest
from tests.report.synthetic import Experiment, Row, row

import rade
from rade.commands.demo import Stress, verdicts
from rade.commands.train import verdicts_of
from rade.comparison import Run
from rade.report import build, read_rows
from rade.statistics import fold_ratio
from rade.train.folder import Summaries
from rade.train.record import RunRecord

# Validation curves of the ten stored folds of PROTEINS, GCN, at their first, best common and last epoch.
FOLDS = json.loads(Path(__file__).with_name("proteins.json").read_text("utf-8"))
TABLE = Experiment("tu", "PROTEINS", (Row("none", "none"), Row("rade-of", "rade-of")), ("proteins",))


def rows(curves):
    return [
        row(0.7, run=run, folds=10, done=3, dataset="proteins", method=method, history={"val": curve, "p": [0.0] * 3})
        for method, found in curves.items()
        for run, curve in enumerate(found)
    ]


def trained(curves):
    """What `rade train` concludes from these folds."""
    records = [RunRecord.of(one) if isinstance(one, dict) else one for one in rows(curves)]
    return Summaries({name: [one for one in records if one.settings["method"] == name] for name in curves}, Path())


def reported(curves):
    (table,) = build(read_rows(rows(curves))[0], [TABLE]).tables
    return table.comparisons[0].judged


def compared(curves, ratio):
    runs = [Run(method, run, 0.5, curve[1], 1, 3, 0.0, 0.0, 0.1) for method in curves
            for run, curve in enumerate(curves[method])]  # fmt: skip
    return rade.Comparison(tuple(runs), "accuracy", "none", ratio).differences["rade-of"]


def test_the_folds_of_proteins_have_one_interval():
    comparison = trained(FOLDS)
    (told,) = verdicts_of(comparison)
    assert str(comparison.differences[1]) == str(told.result) == "+0.90 [−1.59, 3.39]"
    assert reported(FOLDS).result == told.result
    found = compared(FOLDS, fold_ratio(10)).result
    assert (str(found), found.p) == (str(told.result), pytest.approx(told.result.p))
    for verdict in (told, reported(FOLDS)):
        assert "0.90 points, 95 % interval −1.59 to 3.39; 10 folds. The folds are given" in str(verdict)


def test_equal_differences_have_no_interval_anywhere():
    curves = {"none": [[0.5, 0.6, 0.5]] * 3, "rade-of": [[0.5, 0.7, 0.5]] * 3}
    comparison = trained(curves)
    assert str(comparison.differences[1]) == "+10.00"
    assert comparison.to_json()["summaries"][1]["difference"] == {"mean": pytest.approx(0.1), "low": None, "high": None}
    seeds = {method: {"clean": tuple(curve[1] for curve in found)} for method, found in curves.items()}
    assert verdicts(Stress(seeds, "accuracy"))[0] == "rade-of against none: +10.0 in every graph: clean"
    sentence = "rade-of is 10.00 points above the plain model in each of 3 seeds; without spread there is no interval."
    assert str(compared(curves, 0.0)) == sentence
    assert str(verdicts_of(comparison)[0]) == sentence.replace("the plain model", "none").replace("seeds", "folds")
