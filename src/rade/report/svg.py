"""Small pictures as inline SVG; colours come from the page's style sheet, so they follow dark mode and print."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rade.report.axis import Axis, digits

WIDTH = 360
MOST_CIRCLES = 60  # in one strip: beyond, points are one path without tips


@dataclass(frozen=True)
class Strip:
    """One line of a strip plot: every run as a point, the mean with its interval, the paper's mean."""

    label: str
    style: str
    points: tuple[tuple[str, float], ...]  # tip, value
    mean: float
    low: float | None
    high: float | None
    paper: float | None


@dataclass(frozen=True)
class Trace:
    """One line of a curve plot with the range of the runs around it."""

    label: str
    style: str
    epochs: tuple[int, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def strips(title: str, lines: Sequence[Strip]) -> str:
    """A panel of strips on one axis."""
    left, row, top = 118, 22, 6
    height = top + row * len(lines) + 22
    values = [value for line in lines for value in _extent(line)]
    scale = Axis.around(values, left, WIDTH - 10)
    parts = [_ticks(scale, top, height - 20)]
    for index, line in enumerate(lines):
        parts.append(_strip(line, scale, top + row * index + row / 2))
    return _svg(title, WIDTH, height, parts)


def curves(title: str, traces: Sequence[Trace], percent: bool, across: str = "epoch") -> str:
    """A panel of curves over epochs, or over another whole number."""
    left, top, bottom, height = 40, 8, 130, 152
    values = [value for trace in traces for value in (*trace.low, *trace.high)]
    last = max((trace.epochs[-1] for trace in traces), default=1)
    first = min((trace.epochs[0] for trace in traces), default=1)
    x, y = Axis.between(min(first, 1), max(last, 2), left, WIDTH - 8), Axis.around(values, bottom, top)
    parts = [_frame(x, y, left, bottom, percent, 20 + 6 * len(across))]
    parts += [_trace(trace, x, y) for trace in traces]
    parts.append(f'<text class="unit" x="{WIDTH - 8}" y="{bottom + 15}" text-anchor="end">{escape(across)}</text>')
    return _svg(title, WIDTH, height, parts)


def interval(mean: float, low: float | None, high: float | None, reach: float, code: str) -> str:
    """A difference with its interval on an axis from −reach to reach; arrows where it leaves the axis."""
    width, height = 150, 18
    axis = Axis.between(-reach, reach, 6, width - 6)
    parts = [f'<path class="zero" d="M{_n(axis(0.0))} 1V{height - 1}"/>']
    if low is not None and high is not None:
        start, end = axis(max(low, -reach)), axis(min(high, reach))
        parts.append(f'<path class="bar" d="M{_n(start)} 9H{_n(end)}"/>')
        parts += ['<path class="bar" d="M6 5L2 9L6 13"/>'] if low < -reach else []
        parts += [f'<path class="bar" d="M{width - 6} 5L{width - 2} 9L{width - 6} 13"/>'] if high > reach else []
    place = axis(min(max(mean, -reach), reach))
    parts.append(f'<circle class="dot" cx="{_n(place)}" cy="9" r="3.5"/>')
    inner = "".join(parts)
    return (
        f'<svg class="interval {escape(code)}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-hidden="true">{inner}</svg>'
    )


def _extent(line: Strip) -> list[float]:
    """What the panel must show: all runs, and what else lies near; a paper's mean or an interval may leave it."""
    values = [value for _, value in line.points]
    low, high = min(values), max(values)
    reach = 1.5 * (high - low or 1.0)
    ends = [value for value in (line.low, line.high) if value is not None]
    near = [min(max(end, low - reach), high + reach) for end in ends]
    paper = [line.paper] if line.paper is not None and low - reach <= line.paper <= high + reach else []
    return [*values, *near, *paper]


def _strip(line: Strip, scale: Axis, middle: float) -> str:
    parts = [f'<text x="112" y="{_n(middle + 4)}" text-anchor="end">{escape(_short(line.label))}</text>']
    if line.low is not None and line.high is not None:
        start, end = max(scale(line.low), scale.start), min(scale(line.high), scale.end)
        parts.append(f'<path class="ci" d="M{_n(start)} {_n(middle)}H{_n(end)}"/>')
    parts.append(_points(line.points, scale, middle))
    parts.append(f'<path class="mean" d="M{_n(scale(line.mean))} {_n(middle - 7)}v14"/>')
    if line.paper is not None:
        parts.append(_paper(line.paper, scale, middle))
    return f'<g class="strip {escape(line.style)}">{"".join(parts)}</g>'


def _paper(value: float, scale: Axis, middle: float) -> str:
    """A diamond, or a triangle that points off the panel."""
    place, tip = scale(value), f"<title>the paper: {value:.2f}</title>"
    if place < scale.start:
        shape = f"M{_n(scale.start + 5)} {_n(middle - 4.5)}v9l-6 -4.5z"
    elif place > scale.end:
        shape = f"M{_n(scale.end - 1)} {_n(middle - 4.5)}v9l6 -4.5z"
    else:
        shape = f"M{_n(place)} {_n(middle - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"
    return f'<path class="paper" d="{shape}">{tip}</path>'


def _points(points: Sequence[tuple[str, float]], scale: Axis, middle: float) -> str:
    """Points a little apart from each other, always in the same way."""
    places = [(scale(value), middle + (index % 5 - 2) * 1.7) for index, (_, value) in enumerate(points)]
    if len(points) > MOST_CIRCLES:
        return f'<path class="run" d="{"".join(f"M{_n(x)} {_n(y)}h0" for x, y in places)}"/>'
    return "".join(
        f'<circle cx="{_n(x)}" cy="{_n(y)}" r="2.6"><title>{escape(tip)}</title></circle>'
        for (tip, _), (x, y) in zip(points, places)
    )


def _ticks(scale: Axis, top: float, bottom: float) -> str:
    marks = scale.marks(4)
    places = digits(marks)
    return "".join(
        f'<path class="grid" d="M{_n(scale(mark))} {top}V{bottom}"/>'
        f'<text class="tick" x="{_n(scale(mark))}" y="{bottom + 14}" text-anchor="middle">{mark:.{places}f}</text>'
        for mark in marks
    )


def _frame(x: Axis, y: Axis, left: float, bottom: float, percent: bool, room: float) -> str:
    """Grid and marks, those below as far as ``room`` for the unit is left."""
    marks = y.marks(4)
    places = digits([100 * mark for mark in marks] if percent else marks)
    parts = [
        f'<path class="grid" d="M{left} {_n(y(mark))}H{WIDTH - 8}"/><text class="tick" x="{left - 5}" '
        f'y="{_n(y(mark) + 3.5)}" text-anchor="end">{100 * mark if percent else mark:.{places}f}</text>'
        for mark in marks
    ]
    parts += [
        f'<text class="tick" x="{_n(x(mark))}" y="{bottom + 15}" text-anchor="middle">{mark:.0f}</text>'
        for mark in x.marks(4)
        if mark > 0 and x(mark) < WIDTH - room
    ]
    return "".join(parts)


def _trace(trace: Trace, x: Axis, y: Axis) -> str:
    upper = [f"{_n(x(epoch))} {_n(y(value))}" for epoch, value in zip(trace.epochs, trace.high)]
    lower = [f"{_n(x(epoch))} {_n(y(value))}" for epoch, value in zip(trace.epochs, trace.low)]
    line = [f"{_n(x(epoch))} {_n(y(value))}" for epoch, value in zip(trace.epochs, trace.middle)]
    band = f'<path class="band" d="M{"L".join([*upper, *reversed(lower)])}z"/>'
    return (
        f'<g class="trace {escape(trace.style)}">{band}<path class="line" d="M{"L".join(line)}"/>'
        f"<title>{escape(trace.label)}</title></g>"
    )


def _svg(title: str, width: int, height: float, parts: Sequence[str]) -> str:
    name = escape(title)
    return f'<svg class="plot" viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _short(text: str) -> str:
    return text if len(text) <= 20 else text[:19] + "…"


def _n(value: float) -> str:
    """A coordinate in as few characters as a picture needs."""
    return f"{value:.1f}".removesuffix(".0")
