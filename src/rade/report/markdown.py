"""The report as Markdown, fit for `docs/results.md`, and the README's headline table."""

import re
from collections.abc import Iterable, Sequence

from rade.report.build import Report
from rade.report.compare import Comparison
from rade.report.environment import environment, settings_words
from rade.report.glance import COUNTS, RATES, counts, rates
from rade.report.late import LATE, late
from rade.report.match import Cell
from rade.report.numbers import duration, interval, many, mean_std, p_value, seeds
from rade.report.overview import sentence, summary
from rade.report.tables import Line, Table
from rade.statistics import number, signed

_SPECIAL = re.compile(r"([\\`*_{}\[\]|#])")


def markdown(report: Report) -> str:
    """The whole report."""
    parts = [f"# {escape(report.title)}", summary(report), _reading(report)]
    parts += _section("At a glance", _COUNTED, COUNTS, counts(report))
    for table in report.tables:
        parts += _table(table)
    parts += _section("Where the rates went", _MOVED, RATES, rates(report))
    parts += _section("When training goes on", _LATER, LATE, late(report))
    parts += _others(report)
    parts += _failures(report)
    parts += _diagnoses(report)
    parts += _made(report)
    return "\n\n".join(parts) + "\n"


def headline(report: Report) -> str:
    """The README's table, from the fullest one with a plain backbone and RADE: scores, and paired gains over plain.

    Tables beside which the paper's numbers stand come first, then those that have baselines. Of several plain rows all
    are named: each gain is over the one with the same settings.
    """
    for table in sorted(report.tables, key=_rank):
        ours = list(dict.fromkeys(cell.row.name for cell in table.filled if _is_rade(cell)))
        if table.is_score and ours and any(cell.is_plain for cell in table.filled):
            gains = [text for name in ("best baseline", *map(escape, ours)) for text in (name, "gain [95 % interval]")]
            return _grid(["data set, backbone", "plain", *gains], _gains(table, ours))
    return "No table with a plain backbone and RADE has been run yet.\n"


def _rank(table: Table) -> tuple[bool, bool, int]:
    published = any(cell.published for cell in table.filled)
    baselines = any(cell.is_baseline for cell in table.filled)
    return not published, not baselines, -len(table.filled)


def escape(text: object) -> str:
    """Text that Markdown and the HTML inside it leave alone."""
    plain = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", " ".join(plain.split()))


def _reading(report: Report) -> str:
    """What stands in a cell."""
    paper = any(cell.published for table in report.tables for cell in table.cells)
    ours = "Ours is mean ± standard deviation (n − 1) and in brackets the runs, in % unless said otherwise"
    beside = "; below it the paper's, and ours minus the paper's. " if paper else ". "
    return (
        f"{ours}{beside}Differences are paired: same seeds, splits and folds. "
        "How every number is computed: [report.md](report.md)."
    )


def _section(title: str, words: str, head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """A table of lines under a heading; nothing without lines."""
    rows = [[escape(text) for text in line] for line in lines]
    return [f"## {title}", words, _grid([escape(name) for name in head], rows).rstrip()] if rows else []


_COUNTED = (
    "Above and below: how many paired differences of RADE and its variants have a 95 % interval without 0, of those "
    "that have an interval; not corrected for their number. Runs that stand in several tables are counted in each."
)
_LATER = (
    "Validation scores in % at each run's best epoch, and as the mean of its last ten epochs: what is left for "
    "those who do not stop early. Differences are paired, with 95 % intervals; epochs are medians over the runs."
)
_MOVED = "Rates that adapt, in the first epoch, and least to largest over the runs in the last recorded one."


def _table(table: Table) -> list[str]:
    experiment = table.experiment
    parts = [f"## {escape(experiment.title)}", sentence(table)]
    parts += [escape(experiment.note)] if experiment.note else []
    head = ["backbone", "method", *(escape(name) for name in experiment.datasets)]
    parts.append(_grid(head, _cells(table)).rstrip())
    parts += _left_out(table)
    apart = [cell for cell in table.filled if cell.filled and cell.filled.departures]
    if apart:
        parts.append("\n".join(_departures(cell, cell.filled.departures) for cell in apart if cell.filled))
    if table.comparisons:
        head = ["data set", "backbone", "method", "against", "difference", "95 % interval", "d", "p (Holm)", "pairs"]
        parts += ["### Paired differences", _grid([*head, "seeds for 80 % power"], _differences(table)).rstrip()]
        parts.append("\n".join(f"- {_where(one)}: {escape(one.verdict)}" for one in table.comparisons))
    if table.overall:
        head = ["backbone", "method", "data sets", "probability of improvement", "interquartile mean of differences"]
        parts += ["### Over data sets, against the plain backbone", _grid(head, _overall(table)).rstrip()]
    return parts


def _is_blank(line: Line) -> bool:
    """Whether it has neither runs nor numbers of the paper."""
    return all(cell.filled is None and cell.published is None for cell in line.cells)


def _left_out(table: Table) -> list[str]:
    """The lines that would say nothing but that they were not run, by backbone."""
    names: dict[str, list[str]] = {}
    for line in filter(_is_blank, table.lines):
        names.setdefault(line.backbone, []).append(line.row.name)
    told = "; ".join(f"{escape(backbone)}: {escape(', '.join(rows))}" for backbone, rows in names.items())
    return [f"Not run at all: {told}."] if told else []


def _cells(table: Table) -> Iterable[list[str]]:
    for line in table.lines:
        if _is_blank(line):
            continue
        yield [escape(line.backbone), escape(line.row.name), *(_cell(cell, table.digits) for cell in line.cells)]


def _cell(cell: Cell, digits: int) -> str:
    paper = "" if cell.published is None else f"<br>paper {mean_std(cell.published, digits)}"
    if cell.filled is None:
        return f"not run{paper}"
    gap = "" if cell.gap is None else f", {signed(cell.gap, digits)}"
    mark = escape("*") if cell.filled.departures else ""
    searched = f", {cell.filled.tried} of {cell.candidates} settings" if cell.candidates > 1 else ""
    return f"{mean_std(cell.filled.spread, digits)} ({len(cell.filled.group.runs)}{searched}){mark}{paper}{gap}"


def _departures(cell: Cell, found: Sequence[str]) -> str:
    return f"- \\* {escape(cell.row.name)}, {escape(cell.dataset)}, {escape(cell.backbone)}: {escape('; '.join(found))}"


def _differences(table: Table) -> Iterable[list[str]]:
    for one in table.comparisons:
        found = one.result
        interval = "–" if found.low is None else f"{number(found.low)} to {number(found.high)}"
        yield [
            escape(one.cell.dataset),
            escape(one.cell.backbone),
            escape(one.cell.row.name),
            escape(one.against),
            signed(found.mean),
            interval,
            signed(found.effect),
            p_value(one.adjusted),
            str(found.count),
            seeds(one.needed, found.effect, one.folds, one.rough),
        ]


def _overall(table: Table) -> Iterable[list[str]]:
    for one in table.overall:
        better, middle = one.improvement, one.middle
        yield [
            escape(one.line.backbone),
            escape(one.line.row.name),
            str(len(one.datasets)),
            f"{number(better.value)} {interval(better.low, better.high)}",
            f"{signed(middle.value)} {interval(middle.low, middle.high)}",
        ]


def _gains(table: Table, names: Sequence[str]) -> Iterable[list[str]]:
    for dataset in table.experiment.datasets:
        for backbone in dict.fromkeys(line.backbone for line in table.lines):
            cells = [cell for cell in table.filled if (cell.dataset, cell.backbone) == (dataset, backbone)]
            plain = [cell for cell in cells if cell.is_plain]
            best = _best_baseline(table, cells)
            if plain and any(_is_rade(cell) for cell in cells):
                by_name = {cell.row.name: cell for cell in cells}
                gains = [text for name in names for text in _gain(table, by_name.get(name))]
                named = [_named(best), _gain(table, best)[1] if best else "–"]
                scores = _short(plain[0]) if len(plain) == 1 else "; ".join(map(_named, plain))
                yield [f"{escape(dataset)}, {escape(backbone)}", scores, *named, *gains]


def _best_baseline(table: Table, cells: Sequence[Cell]) -> Cell | None:
    """By its gain over plain on the seeds that both have; one with an interval comes before a single run."""
    found = [(cell, table.against(cell, "plain")) for cell in cells if cell.is_baseline]
    ranked = [(one.result.low is not None, one.result.mean, cell) for cell, one in found if one is not None]
    return max(ranked, key=lambda place: place[:2], default=(False, 0.0, None))[2]


def _gain(table: Table, cell: Cell | None) -> tuple[str, str]:
    one = table.against(cell, "plain") if cell else None
    if cell is None or one is None:
        return ("not run" if cell is None else _short(cell), "–")
    return _short(cell), str(one.result)


def _short(cell: Cell) -> str:
    return f"{mean_std(cell.filled.spread)} ({len(cell.filled.group.runs)})" if cell.filled else "–"


def _named(cell: Cell | None) -> str:
    return "–" if cell is None else f"{escape(cell.row.name)} {_short(cell)}"


def _is_rade(cell: Cell) -> bool:
    return not cell.is_plain and not cell.is_baseline


def _where(one: Comparison) -> str:
    return f"{escape(one.cell.dataset)}, {escape(one.cell.backbone)}"


def _others(report: Report) -> list[str]:
    if not report.others:
        return []
    rows = [
        [*map(escape, (*one.group.place, one.group.method, one.group.protocol or "–", settings_words(one.group))),
         mean_std(one.spread), str(len(one.group.runs)), escape(one.reason)]
        for one in report.others
    ]  # fmt: skip
    head = ["data set", "backbone", "method", "protocol", "settings", "score", "runs", "why here"]
    return ["## Other runs", _grid(head, rows).rstrip()]


def _failures(report: Report) -> list[str]:
    failures = report.beside.failures
    if not failures:
        return []
    rows = [
        [*map(escape, (one.dataset, one.backbone, one.method, one.run, one.reason, one.when, one.command))]
        for one in failures
    ]
    head = ["data set", "backbone", "method", "run", "reason", "when", "command"]
    return ["## Failed runs", _grid(head, rows).rstrip()]


def _diagnoses(report: Report) -> list[str]:
    parts = []
    for one in report.beside.diagnoses:
        parts += [f"## Flow of information: {escape(one.title)}", f"{escape(one.model)}; {escape(one.facts)}."]
        parts += [escape("; ".join(one.notes)) + "."] if one.notes else []
        parts.append(_grid([escape(name) for name in one.head], [[*map(escape, line)] for line in one.lines]).rstrip())
    return parts


def _made(report: Report) -> list[str]:
    found = environment(report.runs)
    parts = ["## How it was made"]
    parts.append(f"{many(len(report.runs), 'run')}, {found.epochs:,} epochs, {duration(found.seconds)} of training.")
    for name, counted in (("Commits", found.commits), ("Versions", found.versions), ("Machines", found.machines)):
        parts.append(f"{name}: " + "; ".join(_times(text, count) for text, count in counted) + ".")
    commands = "\n".join(f"- {_times(text, count)}" for text, count in found.commands)
    parts.append(f"Commands, R being the number of the run:\n\n{commands}")
    if found.data:
        head = ["data set", "source", "licence", "files and checksums", "runs"]
        rows = [
            [escape(one.name), escape(one.source), escape(one.licence),
             "<br>".join(f"{escape(file)} {escape(check)}" for file, check in one.files), f"{one.runs:,}"]
            for one in found.data
        ]  # fmt: skip
        parts.append(_grid(head, rows).rstrip())
    if report.problems:
        listed = "\n".join(f"- {escape(one.name)}: {escape(one.reason)}" for one in report.problems)
        parts.append(f"Not used:\n\n{listed}")
    return parts


def _times(text: str, count: int) -> str:
    return f"{escape(text)} ({many(count, 'run')})"


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
