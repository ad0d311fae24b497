"""The long table of all runs, written without a template: ten thousand lines must not take seconds."""

from dataclasses import dataclass
from html import escape

from rade.report.build import Report
from rade.report.rows import Run
from rade.statistics import number

HEAD = (
    "data set", "backbone", "method", "protocol", "seed", "run", "validation", "test", "best epoch", "epochs",
    "last p", "last q", "seconds", "tables", "commit", "key",
)  # fmt: skip
NUMERIC = frozenset(HEAD[4:13])


MOST = 1000  # lines of one table: browsers take seconds to lay out many more


@dataclass(frozen=True)
class Lines:
    """Table rows of some runs as HTML, every text escaped."""

    title: str
    count: int
    html: str


def run_lines(report: Report) -> tuple[Lines, ...]:
    """One table row per run; beyond a thousand runs in one table per data set and backbone."""
    apart = len(report.runs) > MOST
    parts: dict[str, list[Run]] = {}
    for run in report.runs:
        place = f"{run.settings['dataset']}, {run.settings['backbone']}" if apart else ""
        parts.setdefault(place, []).append(run)
    return tuple(
        Lines(place, len(runs), "\n".join(_line(run, report.homes.get(run.key, ())) for run in runs))
        for place, runs in sorted(parts.items())
    )


def _line(run: Run, homes: tuple[str, ...]) -> str:
    settings, made = run.settings, run.made
    words = (settings["dataset"], settings["backbone"], settings["method"], run.protocol)
    numbers = (
        (run.seed, str(run.seed)),
        (run.run, str(run.run)),
        (run.val, number(100 * run.val)),
        (run.test, number(100 * run.test)),
        (run.best_epoch, str(run.best_epoch)),
        (run.epochs, str(run.epochs)),
        (run.last("p"), number(run.last("p"), 3)),
        (run.last("q"), number(run.last("q"), 5)),
        (run.seconds, number(run.seconds, 1)),
    )
    cells = "".join(f"<td>{escape(text)}</td>" for text in words)
    cells += "".join(f'<td class="num" data-v="{_value(value)}">{text}</td>' for value, text in numbers)
    commit = made.commit[:12] + (" +" if made.dirty else "")
    codes = "".join(f'<td class="mono">{escape(text)}</td>' for text in (commit, run.key[:12]))
    return f"<tr>{cells}<td>{escape(', '.join(homes))}</td>{codes}</tr>"


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
