"""The picture of a table by matplotlib: paired differences with their intervals, a panel per data set and backbone.

On the page it is inline SVG whose colours are the page's, so that one drawing follows light, dark and print.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from rade.report.judge import Verdict
from rade.report.tables import Table
from rade.statistics import Paired, number, signed

# Colours that occur nowhere else, and the page's variable that takes the place of each.
PAGE = {
    "ink": "#01010a", "soft": "#01010b", "faint": "#01010c", "good": "#01010d", "bad": "#01010e", "grey": "#02010e",
}  # fmt: skip
_IDS = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_DIGITS = re.compile(r"(\d\.\d\d)\d+")  # more than a screen shows
_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))

Colours = Mapping[str, str]
Column = tuple[str, Sequence[Verdict | None]]


def forest(table: Table) -> str:
    """All differences of a table to the plain backbone: a panel per data set and backbone, a line per method."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(one.cell.row.name for one in table.comparisons if one.kind == "plain"))
    columns = list(_columns(table, names))
    if not columns:
        return ""
    across = min(len(columns), 3)
    down = -(-len(columns) // across)
    width, height = 2.2 + 2.6 * across, down * (0.7 + 0.22 * len(names))
    # In inches; room found by measuring every text would take twice the time.
    room = {"left": 2.0 / width, "right": 1 - 0.1 / width, "bottom": 0.3 / height, "top": 1 - 0.3 / height}
    with rc_context(_look(table.experiment.name)):
        figure = Figure(figsize=(width, height))
        figure.subplots_adjust(**room, wspace=0.08, hspace=0.4)
        draw_forest(figure, PAGE, names, columns, across)
        return _inline(figure, f"Differences to the plain backbone: {table.experiment.title}")


def _columns(table: Table, names: Sequence[str]) -> Iterator[Column]:
    for backbone in dict.fromkeys(line.backbone for line in table.lines):
        for dataset in table.experiment.datasets:
            found = {cell.row.name: one.verdict for cell in table.at(dataset, backbone) if (one := table.against(cell))}
            if found:
                yield f"{dataset}, {backbone}", [found.get(name) for name in names]


def draw_forest(figure: Any, colours: Colours, names: Sequence[str], columns: Sequence[Column], across: int) -> None:
    """Means as dots and 95 % intervals as lines on one axis of points; an arrow or a number where they leave it."""
    down = -(-len(columns) // across)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    reach = _reach([one for _, column in columns for one in column if one])
    for panel, (title, column) in zip(panels, columns):
        panel.set_title(title, fontsize="medium", loc="left", y=1.0)
        panel.axvline(0, color=colours["soft"], linewidth=1)
        for height, one in enumerate(column):
            if one:
                _draw_interval(panel, height, one.result, reach, colours)
        panel.tick_params(left=False)
    panels[0].set(xlim=(-1.04 * reach, 1.04 * reach), ylim=(len(names) - 0.4, -0.6))
    panels[0].set_yticks(range(len(names)), [name[:30] + "…" * (len(name) > 30) for name in names])
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(columns) - across) : len(columns)]:
        panel.tick_params(labelbottom=True)


def _draw_interval(panel: Any, height: float, result: Paired, reach: float, colours: Colours) -> None:
    """In colour, good or bad, where the interval, not corrected for many comparisons, leaves out 0."""
    mean, low, high, colour = result.mean, result.low, result.high, colours["grey"]
    if low is not None and high is not None:
        colour = colours["good" if low > 0 else "bad" if high < 0 else "grey"]
        panel.hlines(height, max(low, -reach), min(high, reach), color=colour, linewidth=1.6)
        for mark, place, leaves in (("<", -reach, low < -reach), (">", reach, high > reach)):
            if leaves:
                panel.plot(place, height, mark, color=colour, markersize=4.5)
    if abs(mean) <= reach:
        panel.plot(mean, height, "o", color=colour, markersize=4.5)
    else:
        place, side = math.copysign(0.93 * reach, mean), "left" if mean < 0 else "right"
        panel.text(place, height - 0.12, signed(mean, 1), color=colour, ha=side, va="bottom", fontsize="x-small")


def draw_rows(panel: Any, rows: Mapping[str, tuple[Sequence[float], Paired]], colours: Mapping[str, str]) -> None:
    """A line per row: its values as dots, and their mean with its 95 % interval."""
    for height, (name, (values, found)) in enumerate(rows.items()):
        panel.plot(values, [height] * len(values), ".", color=colours[name], alpha=0.35)
        reach = 0.0 if found.high is None else found.high - found.mean
        panel.errorbar(found.mean, height, xerr=reach, fmt="o", color=colours[name], capsize=4)
        panel.text(found.mean, height - 0.17, number(found.mean, 1), color=colours[name], ha="center", va="bottom")
    panel.set_yticks(range(len(rows)), list(rows))
    panel.set_ylim(len(rows) - 0.5, -0.7)


def _reach(verdicts: Sequence[Verdict]) -> float:
    """Half the width of the axis: nine of ten intervals fit, the widest leave it."""
    ends = sorted(
        max(abs(one.result.mean if end is None else end) for end in (one.result.low, one.result.high))
        for one in verdicts
    )
    return ends[int(0.9 * (len(ends) - 1))] or 1.0


def _look(name: str) -> dict[str, Any]:
    """Text stays text, and the same picture is the same bytes."""
    sides = {f"axes.spines.{side}": False for side in ("top", "right", "left")}
    inks = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), PAGE["ink"])
    lines = {"axes.edgecolor": PAGE["faint"], "grid.color": PAGE["faint"], "axes.grid": True, "axes.grid.axis": "x"}
    rest = {"svg.hashsalt": name, "svg.fonttype": "none", "text.parse_math": False, "font.size": 8.5}
    return {**rest, **sides, **inks, **lines, "axes.xmargin": 0.02}


def _inline(figure: Any, title: str) -> str:
    """The SVG for the page; it names no element that another picture names, and no colour of its own."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=_METADATA)
    text = file.getvalue()
    text = _DIGITS.sub(r"\1", _IDS.sub("", text[text.index("<svg") :]))
    for name, colour in PAGE.items():
        text = text.replace(colour, f"var(--{name})")
    return text.replace("<svg", f'<svg class="plot" role="img" aria-label="{escape(title)}"', 1)
