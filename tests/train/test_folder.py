"""What `rade train` concludes from its runs: scores of folds, the curves, notes."""

from types import SimpleNamespace

from tests.report.synthetic import row

from rade.commands.train import notes_of
from rade.comparison import Comparison
from rade.train.folder import LEGEND, curves_figure
from rade.train.record import RunRecord


def record(method, run, done=5, best=3, folds=0, skipped=0, curves=("val", "test", "loss", "p", "q"), **given):
    rising = [0.1 * (epoch + 1) for epoch in range(done)]
    history = {name: given.get(name, rising) for name in curves}
    values = row(rising[best - 1], run, folds, done, method=method, history=history)
    return RunRecord.of({**values, "best_epoch": best, "skipped": skipped})


def test_folds_report_the_best_epoch_of_the_mean_curve():
    curves = [[0.5, 0.9, 0.6], [0.5, 0.5, 0.8]]
    runs = [record("none", run, done=3, folds=10, val=curve) for run, curve in enumerate(curves)]
    found = Comparison.of({"none": runs})
    assert [(run.test, run.best_epoch) for run in found.runs] == [(0.9, 2), (0.5, 2)]
    assert "none    70.00 ± 28.28" in str(found)
    assert str(found).endswith("Scores are those of the best epoch of the fold-averaged validation curve.")


def test_panels_bands_and_chosen_epochs():
    """Runs of different length; the second method has no test curve, but test scores."""
    results = {
        "none": [record("none", 0, done=4), record("none", 1, done=6, best=5)],
        "rade-of": [record("rade-of", run, curves=("val", "loss", "p", "q")) for run in range(2)],
    }
    figure = curves_figure(results)
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["validation accuracy", "test accuracy", "training loss", "drop rate p", "add rate q"]
    assert LEGEND in figure.get_suptitle()
    val, test, loss, *_ = figure.axes
    dots = [line for line in val.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [[3, 5], [3, 3]]
    assert len(test.lines) == 3  # one curve, two rows of dots
    assert len(loss.lines) == len(loss.collections) == 2


def test_a_rate_that_fell_to_zero_and_rate_steps_that_were_left_out_are_told():
    none = record("none", 0, p=[0.0] * 5, q=[0.0] * 5)
    runs = [record("rade-of", 0, p=[0.5, 0.4, 0.3, 0.1, 0.0]), record("rade-of", 1, skipped=2)]
    skipped, fell = notes_of(SimpleNamespace(settings=()), {"none": [none], "rade-of": runs})
    assert skipped.startswith("warning: rade-of run 1: 2 rate steps were not finite and were left out")
    assert fell.startswith("note: rade-of: p fell to 0 in 1 of 2 runs: the noise's gradient stayed above the data's")
