"""Several methods and runs in one folder: what is kept, what is refused, the summary, the curves."""

import json

import pytest
from scipy.stats import ttest_rel

from rade.commands.train import notes_of, verdicts_of, warnings_of
from rade.train import RunError, resolve, summarise
from rade.train.folder import LEGEND, Summaries, Summary, curves_figure, train_all
from rade.train.record import RunRecord


def settings(method="none", **overrides):
    return resolve("csbm", "gcn", method, **({"epochs": 4, "hidden": 8} | overrides))


def summary(folder):
    rows = json.loads((folder / "summary.json").read_text())["summaries"]
    return {row["method"]: (len(row["scores"]), row["difference"] is not None) for row in rows}


def test_runs_and_methods_of_a_folder_are_summarised_together(papers, tmp_path):
    """Fewer of them, a single one and more of them; differences pair equal runs, not equal places."""
    none, drop = settings(), settings("drop-edge")
    train_all(papers, [none, drop], range(2), tmp_path)
    assert summary(tmp_path) == {"none": (2, False), "drop-edge": (2, True)}
    asked = train_all(papers, [drop], range(1), tmp_path)
    assert [len(one.scores) for one in asked.each] == [1]
    assert summary(tmp_path) == {"none": (2, False), "drop-edge": (2, True)}
    train_all(papers, [none], [3], tmp_path, existing="resume")
    assert summary(tmp_path) == {"none": (3, False), "drop-edge": (2, True)}
    train_all(papers, [drop], [3], tmp_path)
    rows = json.loads((tmp_path / "summary.json").read_text())["summaries"]
    for run, *scores in zip((0, 1, 3), *(row["scores"] for row in rows)):
        files = [tmp_path / f"{name}/run-{run}/result.json" for name in ("none", "drop-edge")]
        assert scores == [json.loads(file.read_text())["test"] for file in files]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_other_settings_and_damaged_neighbors_are_left_out(papers, tmp_path):
    train_all(papers, [settings(), settings("drop-edge"), settings("dropout")], range(1), tmp_path)
    with pytest.raises(RunError, match=r"was made with epochs = 4, not 3; choose another folder with --out"):
        train_all(papers, [settings(epochs=3)], range(1), tmp_path)
    (tmp_path / "drop-edge/run-0/result.json").write_text("{")
    (tmp_path / "summary.json").write_text('{"summaries": [{"method": "../.."}, {"method": 3}]}')
    train_all(papers, [settings()], range(1), tmp_path)
    assert summary(tmp_path) == {"none": (1, False), "dropout": (1, True)}
    train_all(papers, [settings(epochs=3)], range(1), tmp_path, existing="overwrite")
    assert summary(tmp_path) == {"none": (1, False)}


def test_orphans_of_killed_runs_go_with_the_next_start(papers, tmp_path):
    for name in ("none/run-0/.checkpoint.pt.12345678", "rade-of/run-3/.model.pt.1", ".summary.json.1", ".curves.png.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    train_all(papers, [settings()], range(1), tmp_path)
    assert [path.name for path in tmp_path.rglob(".*")] == []


def record(method, run, *, epochs=5, best=3, curves=True, p=0.5, q=0.1, **changes):
    curve = [0.1 * (epoch + 1) for epoch in range(epochs)]
    history = {"val": curve, "loss": curve, "p": [0.5] * (epochs - 1) + [p], "q": [0.1] * (epochs - 1) + [q]}
    names = {"method": method, "dataset": "cora", "backbone": "gcn", "seed": 0, "options": {}}
    made = {"versions": {}, "commit": "", "dirty": False, "machine": {}, "threads": 1, "command": ""}
    values = {"key": "0" * 32, "numerics": 1, "protocol": "", "run": run, "seed": run, "metric": "accuracy", "folds": 0}
    values |= {"settings": names, "history": {**history, "test": curve} if curves else history, "val": curve[best - 1]}
    values |= {"test": 0.33, "best_epoch": best, "epochs": epochs, "data": {"name": "cora"}, **made}
    return RunRecord.of({**values, "timing": {"seconds": 1.0, "seconds_per_epoch": 1.0}, **changes})


def test_folds_report_the_best_epoch_of_the_mean_curve():
    curves = [[0.5, 0.9, 0.6], [0.5, 0.5, 0.8]]
    history = {name: [0.5] * 3 for name in ("loss", "p", "q")}
    found = summarise(
        [record("none", k, epochs=3, folds=10, history={**history, "val": val}) for k, val in enumerate(curves)]
    )
    assert list(found.scores.values()) == [0.9, 0.5]
    assert (str(found), found.epoch) == ("70.00 ± 28.28", 2)
    assert found.selection == "best epoch of the fold-averaged validation curve"


def scores(*values, runs=None):
    return Summary("a", "accuracy", {(0, run): value for run, value in zip(runs or range(9), values)}, "", 0.0)


def test_differences_are_paired_by_run():
    """Against SciPy's paired t-test; a shift that all runs share has no interval."""
    one, two = (0.81, 0.79, 0.84, 0.80), (0.80, 0.80, 0.79, 0.77)
    gap, interval = scores(*one).against(scores(*two)), ttest_rel(one, two).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((100 * interval.low, 100 * interval.high))
    assert str(scores(*(value + 0.01 for value in one)).against(scores(*one))) == "+1.00"
    pairs = scores(0.9, 0.7, runs=(1, 3)).against(scores(0.1, 0.8, 0.5, runs=(0, 1, 3)))
    assert str(pairs) == "+15.00 [−48.53, 78.53]"  # 0.1 and 0.2, run 0 left out


def test_panels_bands_and_chosen_epochs():
    """Runs of different length; the second method has no test curve, but test scores."""
    results = {
        "none": [record("none", 0, epochs=4), record("none", 1, epochs=6, best=5)],
        "rade-of": [record("rade-of", 0, curves=False), record("rade-of", 1, curves=False)],
    }
    figure = curves_figure(results)
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["validation accuracy", "test accuracy", "training loss", "drop rate p", "add rate q"]
    assert LEGEND in figure.get_suptitle()
    assert "2 runs per method" in figure.get_suptitle()
    val, test, loss, *_ = figure.axes
    dots = [line for line in val.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [[3, 5], [3, 3]]
    assert len(test.lines) == 3  # one curve, two rows of dots
    assert len(loss.lines) == len(loss.collections) == 2


def test_a_rate_that_fell_to_zero_is_explained():
    flat = {"val": [0.1] * 5, "loss": [0.1] * 5, "p": [0.0] * 5, "q": [0.0] * 5}
    results = {
        "none": [record("none", 0, history=flat)],
        "rade-of": [record("rade-of", 0, p=0.0), record("rade-of", 1)],
    }
    (line,) = notes_of(results)
    assert line.startswith("rade-of: p fell to 0 in 1 of 2 runs: the noise's gradient stayed above the data's")


def test_rate_steps_that_were_left_out_are_told():
    (line,) = warnings_of({"none": [record("none", 0)], "rade-of": [record("rade-of", 0, skipped=2)]})
    assert line.startswith("rade-of run 0: 2 rate steps were not finite and were left out")


def test_verdicts_are_the_judges(tmp_path):
    runs = {name: [record(name, k, test=0.5 + 0.1 * k) for k in range(3)] for name in ("none", "dropout")}
    (verdict,) = verdicts_of(Summaries(runs, tmp_path))
    assert str(verdict) == "dropout scores as none in each of 3 seeds."
