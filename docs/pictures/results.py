"""All results in one picture: differences to plain training with their 95 % intervals, from the runs in results/."""

from pathlib import Path

from matplotlib.figure import Figure
from style import Colours, draw

from rade import experiment
from rade.data import resolve
from rade.experiment.store import open_store
from rade.report import build
from rade.report.cells import CellResult
from rade.report.figures import draw_forest
from rade.report.judge import Verdict
from rade.report.tables import Table, reading_order

STORE = Path(__file__).parents[2] / "results"
METHODS = ("RADE(model)", "RADE-OF", "RADE-OFS")
BACKBONE = "gcn"


def compared() -> dict[str, tuple[Table, list[CellResult]]]:
    """By data set, the first table that has all three methods, and the cells that were run there; graphs last."""
    named = [experiment.load(name) for name in experiment.names()]
    asked = [one for one in named if {row.name for row in one.rows}.issuperset(METHODS)]
    found: dict[str, tuple[Table, list[CellResult]]] = {}
    for table in build(open_store(STORE).records(), reading_order(asked)).tables:
        for dataset in table.experiment.datasets:
            cells = table.at(dataset, BACKBONE)
            if any(cell.row.name in METHODS and table.against(cell) for cell in cells):
                found.setdefault(dataset, (table, cells))
    return dict(sorted(found.items(), key=lambda item: resolve(item[0]).level != "node"))


PLACES = compared()


def verdicts(name: str) -> list[Verdict | None]:
    """Of one method, or of the best baseline where it is called "", by data set."""
    found = []
    for dataset, (table, cells) in PLACES.items():
        chosen = next((cell for cell in cells if cell.row.name == name), None)
        one = table.against(chosen if name else table.best_baseline(dataset, BACKBONE))
        found.append(one.verdict if one else None)
    return found


def marked(dataset: str) -> str:
    """The name, with a star where runs depart from the protocol."""
    departs = any(cell.departures for cell in PLACES[dataset][1])
    return resolve(dataset).title + (" *" if departs else "")


def content(figure: Figure, colours: Colours) -> None:
    """A panel per method, a line per data set; beside the best baselines their names."""
    best = verdicts("")
    columns = [*((name, verdicts(name)) for name in METHODS), ("best baseline", best)]
    look = {"soft": colours["text"], "good": colours["blue"], "bad": colours["orange"], "grey": colours["grey"]}
    draw_forest(figure, look, [marked(dataset) for dataset in PLACES], columns, len(columns))
    for panel in figure.axes:
        panel.grid(axis="x")
        panel.spines["left"].set_visible(False)
    for height, one in enumerate(best):
        if one:
            place = (1.03, height)
            figure.axes[-1].annotate(one.name, place, xycoords=("axes fraction", "data"), va="center", fontsize=8)
    words = "points above plain training of a GCN, 95 % interval, arrows where it goes on; * smaller than the paper's"
    figure.supxlabel(words, fontsize=9)


if __name__ == "__main__":
    draw("results", (10.5, 1.0 + 0.27 * len(PLACES)), content)
