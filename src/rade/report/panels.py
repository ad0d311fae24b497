"""From a judged table to its pictures: strips of all runs, learning curves, rates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rade.report import svg
from rade.report.match import Cell, Filled
from rade.report.rows import Curve, Run
from rade.report.tables import Table
from rade.statistics import fold_ratio, number, paired
from rade.train.measures import MEASURES

COLOURS = 4  # of our own methods; plain and baselines are grey


@dataclass(frozen=True)
class Panel:
    """The pictures of one data set and backbone, each with its caption."""

    title: str
    pictures: tuple[tuple[str, str], ...]  # caption, SVG


def styles(table: Table) -> dict[str, str]:
    """A style per row: colour marks the methods under test, the rest stays grey."""
    found: dict[str, str] = {}
    for cell in table.cells:
        if cell.row.name not in found:
            own = len([style for style in found.values() if style.startswith("own")])
            found[cell.row.name] = "plain" if cell.is_plain else "base" if cell.is_baseline else f"own{own % COLOURS}"
    return found


def strip_panels(table: Table) -> list[Panel]:
    """Every run as a point, per data set and backbone."""
    style = styles(table)
    panels = []
    for title, cells in _places(table):
        lines = [_strip(cell, cell.filled, style[cell.row.name], table) for cell in cells if cell.filled]
        panels.append(Panel(title, (("", svg.strips(f"Every run, {title}", lines)),)))
    return panels


def curve_panels(table: Table) -> list[Panel]:
    """Validation curves and the paths of p and q, per data set and backbone."""
    style = styles(table)
    panels = []
    for title, cells in _places(table):
        pictures = []
        for name, caption in (("val", "validation score, %"), ("p", "drop rate p"), ("q", "add rate q")):
            traces = [trace for cell in cells if cell.filled for trace in _traces(cell, cell.filled, name, style)]
            if traces:
                pictures.append((caption, svg.curves(f"{caption}, {title}", traces, name == "val")))
        if pictures:
            panels.append(Panel(title, tuple(pictures)))
    return panels


def tip(run: Run, value: float, digits: int = 2) -> str:
    """What a point says when pointed at."""
    return f"{number(value, digits)} · seed {run.settings['seed']}, {'fold' if run.folds else 'run'} {run.run}"


def _places(table: Table) -> Iterable[tuple[str, list[Cell]]]:
    for backbone in dict.fromkeys(line.backbone for line in table.lines):
        for dataset in table.experiment.datasets:
            cells = [cell for cell in table.filled if (cell.dataset, cell.backbone) == (dataset, backbone)]
            if cells:
                yield f"{dataset}, {backbone}", cells


def _strip(cell: Cell, filled: Filled, style: str, table: Table) -> svg.Strip:
    scale, digits = MEASURES[table.experiment.measure].scale, table.digits
    by = filled.scores.by
    known = [(run, scale * by[run.pair]) for run in filled.group.runs if run.pair in by]
    points = tuple((tip(run, value, digits), value) for run, value in known)
    units = [scale * value for value in filled.scores.units.values()]
    mean = paired(units, fold_ratio(filled.scores.folds))
    paper = cell.published.mean if cell.published and table.is_score else None  # others have no common scale
    return svg.Strip(cell.row.name, style, points, filled.spread.mean, mean.low, mean.high, paper)


def _traces(cell: Cell, filled: Filled, name: str, style: dict[str, str]) -> list[svg.Trace]:
    curves = [run.curves[name] for run in filled.group.runs if name in run.curves]
    if not curves or (name in ("p", "q") and (cell.is_plain or cell.is_baseline)):
        return []
    epochs, low, middle, high = _over_runs(curves)
    return [svg.Trace(cell.row.name, style[cell.row.name], epochs, middle, low, high)]


def _over_runs(
    curves: Sequence[Curve],
) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Lowest, mean and highest value at each epoch, over the runs that came that far."""
    longest = max((curve.epochs for curve in curves), key=len)
    columns = [[curve.values[index] for curve in curves if index < len(curve.values)] for index in range(len(longest))]
    means = tuple(sum(column) / len(column) for column in columns)
    return tuple(longest), tuple(map(min, columns)), means, tuple(map(max, columns))
