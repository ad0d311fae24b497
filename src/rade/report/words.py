"""What the report says in words and short texts, the same in every format."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rade.experiment.table import Published
from rade.report.judge import WORDS
from rade.report.tables import Report, Table
from rade.statistics import Spread, many, number
from rade.train.record import RunRecord

# Which epoch's score counts, without folds and with them.
RULES = ("test score at the best validation epoch", "best epoch of the fold-averaged validation curve")

Counted = list[tuple[str, int]]


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(42.0), duration(4000.0), duration(200000.0)
    ('42 s', '1 h 7 min', '55 h 33 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def mean_std(value: Spread | Published, digits: int = 2) -> str:
    """`mean ± std`; the mean alone where there is no deviation."""
    text = number(value.mean, digits)
    return text if value.std is None else f"{text} ± {number(value.std, digits)}"


def p_value(value: float | None) -> str:
    """Three digits; smaller ones as a bound.

    >>> p_value(0.0004), p_value(0.04), p_value(None)
    ('< 0.001', '0.040', '–')
    """
    return number(value, 3) if value is None or value >= 0.001 else "< 0.001"


def ended(run: RunRecord) -> str:
    """A run in one line: its scores, where they were reached, and its time."""
    scores = f"val {number(100 * run.val)}, test {number(100 * run.test)}"
    return f"{scores} at epoch {run.best_epoch} of {run.epochs}, {run.timing.seconds:.1f} s"


def listed(values: Mapping[str, Any]) -> str:
    """A mapping in one line."""
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items())) or "unknown"


def summary(report: Report) -> str:
    """How much there is and how comparisons came out; what is in several tables counts once, by the first."""
    runs, tables = report.runs, report.tables
    text = f"{many(len(runs), 'run')} on {many(len({run.settings['dataset'] for run in runs}), 'data set')}"
    filled, cells = sum(len(table.filled) for table in tables), sum(len(table.cells) for table in tables)
    text += f"; {filled:,} of {cells:,} cells in {many(len(tables), 'table')} have runs." if tables else "."
    first: dict[tuple[str, str], str] = {}
    for one in (one for table in tables for one in table.of_rade("plain")):
        first.setdefault((one.cell.group.name, one.reference.group.name), one.verdict.code)
    counted = Counter(first.values())
    if counted:
        found = ", ".join(f"{counted[code]} {words}" for code, words in WORDS.items() if counted[code])
        text += f" RADE and its variants against the plain backbone, {many(counted.total(), 'comparison')}: {found}."
    if report.others:
        text += f" {many(report.others, 'run')} in no cell of these tables: rade results lists all."
    return text


def sentence(table: Table) -> str:
    """How a table's runs were made and selected."""
    text = f"{len(table.filled)} of {len(table.cells)} cells run, {many(len(table.runs), 'run')}, "
    text += f"protocol {table.experiment.protocol}."
    if table.is_score:
        rules = [RULES[folds] for folds in sorted({cell.folds > 0 for cell in table.filled})]
        text += f" Score: {'; for data sets with folds, '.join(rules)}."
    apart = sum(bool(cell.departures) for cell in table.filled)
    text += f" {many(apart, 'cell')}, marked *, depart from the protocol's settings." if apart else ""
    kinds = sorted({str(run.machine.get("cpu", "unknown")) for run in table.runs})
    if table.experiment.measure == "seconds_per_epoch" and len(kinds) > 1:
        text += f" Runs on {len(kinds)} kinds of processor ({', '.join(kinds)}), so do not read ratios from it: "
        text += "`python -m benchmarks.speed epoch` measures them side by side."
    return text


def close_to_paper(table: Table) -> str:
    """How many cells, of those run as the protocol has it, lie within the paper's std of the paper's mean."""
    kept = [cell for cell in table.filled if not cell.departures]
    gaps = [abs(cell.gap) <= cell.published.std for cell in kept if cell.gap is not None and cell.published]
    return f"{sum(gaps)} of {len(gaps)}" if gaps and table.is_score else "–"


def beyond(table: Table, kind: str) -> str:
    """How many differences of RADE have an interval above 0, and how many below."""
    ours = [one.verdict.result for one in table.of_rade(kind)]
    ends = [(one.low, one.high) for one in ours if one.low is not None and one.high is not None]
    above, below = sum(low > 0 for low, _ in ends), sum(high < 0 for _, high in ends)
    return f"{above}, {below} of {len(ends)}" if ends else "–"


def environment(runs: Sequence[RunRecord]) -> dict[str, Counted]:
    """With what the runs were made, each with the number of runs, most frequent first."""
    return {
        "Commits": _counted(f"{run.commit or 'unknown'}{' with changes' if run.dirty else ''}" for run in runs),
        "Versions": _counted(listed(run.versions) for run in runs),
        "Machines": _counted(f"{listed(run.machine)}; {many(run.threads, 'thread')}" for run in runs),
    }


def _counted(texts: Iterable[str]) -> Counted:
    return sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0]))
