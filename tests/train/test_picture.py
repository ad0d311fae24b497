"""The picture of `rade train`, and the sentences beside it."""

from rade.commands.training import notes_of
from rade.train.compare import Comparison
from rade.train.picture import LEGEND, curves_figure
from rade.train.summary import summarise


def result(method, run, *, epochs=5, best=3, test=True, p=0.5, q=0.1):
    curve = [0.1 * (epoch + 1) for epoch in range(epochs)]
    history = {"val": curve, "loss": curve, "p": [0.5] * (epochs - 1) + [p], "q": [0.1] * (epochs - 1) + [q]}
    return {
        "settings": {"method": method, "dataset": "cora", "backbone": "gcn"},
        "history": {**history, "test": curve} if test else history,
        **{"run": run, "metric": "accuracy", "folds": 0, "val": curve[best - 1], "test": 0.33, "best_epoch": best},
        **{"epochs": epochs, "timing": {"seconds": 1.0}},
    }


def test_panels_bands_and_chosen_epochs():
    """Runs of different length; the second method has no test curve, but test scores."""
    results = {
        "none": [result("none", 0, epochs=4), result("none", 1, epochs=6, best=5)],
        "rade-of": [result("rade-of", 0, test=False), result("rade-of", 1, test=False)],
    }
    figure = curves_figure(results)
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["validation accuracy", "test accuracy", "training loss", "drop rate p", "add rate q"]
    assert LEGEND in figure.get_suptitle()
    assert "2 runs per method" in figure.get_suptitle()
    val, test, loss, *_ = figure.axes
    dots = [line for line in val.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [[3, 5], [3, 3]]
    dots = [line for line in test.lines if line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in dots] == [[0.33, 0.33], [0.33, 0.33]]
    assert len(test.lines) == 3  # one curve, two rows of dots
    assert len(loss.lines) == len(loss.collections) == 2


def test_the_band_is_one_standard_deviation_of_a_sample():
    low, high = result("none", 0), result("none", 1)
    high["history"]["val"] = [value + 0.2 for value in low["history"]["val"]]
    (band,) = curves_figure({"none": [low, high]}).axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert abs((heights.max() - heights.min()) - (0.4 + 2 * 0.2 / 2**0.5)) < 1e-9


def test_a_rate_that_fell_to_zero_is_explained(tmp_path):
    results = {
        "none": [result("none", 0, p=0.0, q=0.0)],
        "rade-of": [result("rade-of", 0, p=0.0), result("rade-of", 1)],
    }
    results["none"][0]["history"] |= {"p": [0.0] * 5, "q": [0.0] * 5}
    summaries = tuple(summarise(runs) for runs in results.values())
    (line,) = notes_of(Comparison(summaries, results, tmp_path, tmp_path))
    assert line.startswith("rade-of: p fell to 0 in 1 of 2 runs: the noise's gradient stayed above the data's")
