"""What is left of validation scores when training goes on."""

from tests.report.synthetic import MAIN, row

from rade.report import build
from rade.report.late import late
from rade.report.markdown import markdown
from rade.report.rows import read_rows


def ended(method, best, end, run, epochs=20):
    """A run that stands at `best` until its last ten epochs, which are at `end`."""
    curve = [best] * (epochs - 10) + [end] * 10
    return row(best, run=run, done=epochs, method=method, history={"val": curve})


def report(rows):
    return build(read_rows(rows)[0], (MAIN,))


def test_last_epochs_are_compared_with_plain_training_by_seed():
    rows = [ended(method, best, end + run / 100, run)
            for method, best, end in (("none", 0.8, 0.75), ("drop-edge", 0.8, 0.76), ("rade-of", 0.81, 0.6))
            for run in range(3)]  # fmt: skip
    plain, dropped, rade = late(report(rows))
    assert plain == ("cora", "gcn", "GCN", "3", "13, 20", "80.00", "76.00", "")
    assert dropped[-2:] == ("77.00", "+1.00")  # no interval: the difference is the same in all runs
    assert rade[-3:] == ("81.00", "61.00", "−15.00")
    assert "## When training goes on" in markdown(report(rows))


def test_differences_have_an_interval():
    ends = {"none": (0.7, 0.7), "drop-edge": (0.71, 0.73)}
    lines = list(late(report([ended(method, 0.8, ends[method][run], run) for method in ends for run in range(2)])))
    assert lines[1][-1] == "+2.00 [−10.71, 14.71]"  # 2 ± 12.706 · 1.414 / √2


def test_runs_of_fewer_epochs_and_tables_without_baselines_are_left_out():
    short = [row(0.8, run=run, done=5, method=method) for method in ("none", "drop-edge") for run in range(2)]
    assert list(late(report(short))) == []
    alone = [ended(method, 0.8, 0.7, run) for method in ("none", "rade-of") for run in range(2)]
    assert list(late(report(alone))) == []
    assert "When training goes on" not in markdown(report(alone))
