"""Pictures by matplotlib: forests of paired differences, and learning curves with the paths of the rates.

Those of the page are inline SVG whose colours are the page's, so that they follow dark mode and print.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import fmean
from typing import Any

from rade.report.cells import Cell
from rade.report.judge import Verdict
from rade.report.runs import Curve
from rade.report.tables import Table
from rade.statistics import signed

# Colours that occur nowhere else, and the page's variable that takes the place of each.
PAGE = {
    "ink": "#01010a", "soft": "#01010b", "faint": "#01010c", "good": "#01010d", "bad": "#01010e", "own0": "#02010a",
    "own1": "#02010b", "own2": "#02010c", "own3": "#02010d", "grey": "#02010e",
}  # fmt: skip
DASHES = {"own1": (5, 2), "own2": (2, 2), "own3": (7, 2, 2, 2)}
CAPTIONS = {"val": "validation score, %", "p": "drop rate p", "q": "add rate q"}
_IDS = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_DIGITS = re.compile(r"(\d\.\d\d)\d+")  # more than a screen shows
_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))

Colours = Mapping[str, str]
Column = tuple[str, Sequence[Verdict | None]]


def forest(table: Table) -> str:
    """All differences of a table to the plain backbone: a panel per data set and backbone, a line per method."""
    names = list(dict.fromkeys(one.cell.row.name for one in table.comparisons if one.kind == "plain"))
    columns: list[Column] = []
    for place, cells in places(table):
        found = {cell.row.name: one.verdict for cell in cells if (one := table.against(cell))}
        columns += [(place, [found.get(name) for name in names])] if found else []
    if not columns:
        return ""
    across = min(len(columns), 3)
    size = (2.2 + 2.6 * across, -(-len(columns) // across) * (0.7 + 0.22 * len(names)))
    with _look("forest"):
        figure = _figure(size)
        draw_forest(figure, PAGE, names, columns, across)
        return _inline(figure, f"Differences to the plain backbone: {table.experiment.title}")


def draw_forest(figure: Any, colours: Colours, names: Sequence[str], columns: Sequence[Column], across: int) -> None:
    """Means as dots and 95 % intervals as lines on one axis of points; an arrow or a number where they leave it."""
    down = -(-len(columns) // across)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    reach = _reach([one for _, column in columns for one in column if one])
    for panel, (title, column) in zip(panels, columns):
        panel.set_title(title, fontsize="medium", loc="left")
        panel.axvline(0, color=colours["soft"], linewidth=1)
        for height, one in enumerate(column):
            if one:
                _interval(panel, height, one, reach, colours)
        panel.tick_params(left=False)
    panels[0].set(xlim=(-1.04 * reach, 1.04 * reach), ylim=(len(names) - 0.4, -0.6))
    panels[0].set_yticks(range(len(names)), [name[:30] + "…" * (len(name) > 30) for name in names])
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(columns) - across) : len(columns)]:
        panel.tick_params(labelbottom=True)


def _interval(panel: Any, height: float, one: Verdict, reach: float, colours: Colours) -> None:
    """In colour where the interval, not corrected for many comparisons, leaves out 0."""
    result, colour = one.result, colours["grey"]
    if result.low is not None and result.high is not None:
        colour = colours["good" if result.low > 0 else "bad" if result.high < 0 else "grey"]
        ends = max(result.low, -reach), min(result.high, reach)
        panel.plot(ends, (height, height), color=colour, linewidth=1.6, solid_capstyle="butt")
        places = {"<": -reach} if result.low < -reach else {}
        for mark, place in (places | ({">": reach} if result.high > reach else {})).items():
            panel.plot(place, height, mark, color=colour, markersize=5)
    if abs(result.mean) <= reach:
        panel.plot(result.mean, height, "o", color=colour, markersize=4.5)
        return
    place, side = math.copysign(0.93 * reach, result.mean), "left" if result.mean < 0 else "right"
    panel.text(place, height - 0.12, signed(result.mean, 1), color=colour, ha=side, va="bottom", fontsize="x-small")


def _reach(verdicts: Sequence[Verdict]) -> float:
    """Half the width of the axis: nine of ten intervals fit, the widest leave it."""
    ends = sorted(
        max(abs(one.result.mean if end is None else end) for end in (one.result.low, one.result.high))
        for one in verdicts
    )
    return ends[int(0.9 * (len(ends) - 1))] or 1.0


def places(table: Table) -> Iterator[tuple[str, list[Cell]]]:
    """Data sets and backbones of a table that have runs."""
    for backbone in dict.fromkeys(line.backbone for line in table.lines):
        for dataset in table.experiment.datasets:
            cells = table.at(dataset, backbone)
            if cells:
                yield f"{dataset}, {backbone}", cells


def curves(table: Table) -> str:
    """Validation curves and the paths of p and q, a line of panels per data set and backbone."""
    found = list(places(table))
    styles = _styles(table)
    with _look("curves"):
        height = 1.9 * len(found) + 0.6
        sides = {"left": 0.06, "right": 0.99, "bottom": 0.3 / height, "top": 1 - 0.7 / height}
        figure = _figure((9.6, height), None)  # room found by measuring texts would take twice the time
        figure.subplots_adjust(**sides, hspace=0.45, wspace=0.3)
        panels = figure.subplots(len(found), len(CAPTIONS), squeeze=False)
        for line, (place, cells) in zip(panels, found):
            for panel, (name, caption) in zip(line, CAPTIONS.items()):
                panel.set_title(f"{place}: {caption}" if name == "val" else caption, fontsize="medium", loc="left")
                for cell in cells:
                    if cell.is_rade or name == "val":
                        _trace(panel, cell, name, styles[cell.row.name])
        shown = {handle.get_label(): handle for panel in panels[:, 0] for handle in panel.get_lines()}
        figure.legend(shown.values(), shown, loc="upper left", ncols=6, fontsize="small", frameon=False)
        return _inline(figure, f"Learning curves and rates: {table.experiment.title}")


def _styles(table: Table) -> dict[str, str]:
    """A colour per row: the methods under test have their own, baselines are grey, plain is black."""
    found: dict[str, str] = {}
    for cell in table.cells:
        own = len({name for name, style in found.items() if style.startswith("own")} - {cell.row.name})
        found[cell.row.name] = "ink" if cell.is_plain else "grey" if cell.is_baseline else f"own{own % 4}"
    return found


def _trace(panel: Any, cell: Cell, name: str, style: str) -> None:
    """The mean over the runs that reached an epoch, and for RADE a band from the lowest to the highest."""
    found = [run.curves[name] for run in cell.filled.group.runs if name in run.curves] if cell.filled else []
    if not found:
        return
    epochs, low, middle, high = _over_runs(found, 100.0 if name == "val" else 1.0)
    label = "baselines" if cell.is_baseline else cell.row.name
    (line,) = panel.plot(epochs, middle, color=PAGE[style], linewidth=1.2, label=label)
    if style in DASHES:
        line.set_dashes(DASHES[style])
    if cell.is_rade:
        panel.fill_between(epochs, low, high, color=PAGE[style], alpha=0.12, linewidth=0)


def _over_runs(found: Sequence[Curve], scale: float) -> tuple[Sequence[float], ...]:
    """Epochs, and the lowest, mean and highest value there."""
    longest = max((curve.epochs for curve in found), key=len)
    columns = [[scale * one.values[at] for one in found if at < len(one.values)] for at in range(len(longest))]
    return longest, *([take(one) for one in columns] for take in (min, fmean, max))


def _look(name: str) -> Any:
    """Text stays text, and the same picture is the same bytes."""
    from matplotlib import rc_context

    sides = {f"axes.spines.{side}": False for side in ("top", "right", "left")}
    inks = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), PAGE["ink"])
    lines = {"axes.edgecolor": PAGE["faint"], "grid.color": PAGE["faint"], "axes.grid": True, "axes.grid.axis": "x"}
    rest = {"svg.hashsalt": name, "svg.fonttype": "none", "text.parse_math": False, "font.size": 8.5}
    return rc_context({**rest, **sides, **inks, **lines, "axes.xmargin": 0.02})


def _figure(size: tuple[float, float], layout: Any = "constrained") -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout=layout)


def _inline(figure: Any, title: str) -> str:
    """The SVG for the page; it names no element that another picture names, and no colour of its own."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=_METADATA)
    text = file.getvalue()
    text = _DIGITS.sub(r"\1", _IDS.sub("", text[text.index("<svg") :]))
    for name, colour in PAGE.items():
        text = text.replace(colour, f"var(--{name})")
    return text.replace("<svg", f'<svg class="plot" role="img" aria-label="{escape(title)}"', 1)
