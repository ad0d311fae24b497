"""The report's own sentences about itself: what is there, and what it adds up to."""

from collections import Counter

from rade.report.build import Report
from rade.report.judge import WORDS
from rade.report.numbers import many
from rade.report.tables import Table


def summary(report: Report) -> str:
    """How much there is and how the comparisons came out."""
    datasets = {run.settings["dataset"] for run in report.runs}
    cells = sum(len(table.cells) for table in report.tables)
    run = sum(len(table.filled) for table in report.tables)
    text = f"{many(len(report.runs), 'run')} on {many(len(datasets), 'data set')}"
    text += f"; {run:,} of {cells:,} cells in {many(len(report.tables), 'table')} have runs." if report.tables else "."
    counted = Counter(_first_verdicts(report).values())
    if counted:
        found = ", ".join(f"{counted[code]} {words}" for code, words in WORDS.items() if counted[code])
        text += f" RADE and its variants against the plain backbone, {many(counted.total(), 'comparison')}: {found}."
    if report.beside.failures:
        text += f" {many(len(report.beside.failures), 'run')} failed."
    if report.problems:
        text += f" {many(len(report.problems), 'file')} could not be used."
    return text


def sentence(table: Table) -> str:
    """How a table's runs were made and selected."""
    rules = sorted({cell.filled.scores.rule for cell in table.filled if cell.filled}) if table.is_score else []
    runs = sum(len(cell.filled.group.runs) for cell in table.filled if cell.filled)
    text = f"{len(table.filled)} of {len(table.cells)} cells run, {many(runs, 'run')}, "
    text += f"protocol {table.experiment.protocol}."
    if rules:
        text += f" Score: {'; for data sets with folds, '.join(_folds_last(rules))}."
    apart = sum(bool(cell.filled and cell.filled.departures) for cell in table.filled)
    if apart:
        text += f" {many(apart, 'cell')}, marked *, depart from the protocol's settings."
    return text + (_processors(table) if table.experiment.measure == "seconds_per_epoch" else "")


def _processors(table: Table) -> str:
    """Times of runs on machines of several kinds are no ratios."""
    runs = [run for cell in table.filled if cell.filled for run in cell.filled.group.runs]
    kinds = sorted({str(run.made.machine.get("cpu", "unknown")) for run in runs})
    if len(kinds) < 2:
        return ""
    return (
        f" Runs on {len(kinds)} kinds of processor ({', '.join(kinds)}), so do not read ratios from it: "
        "`rade bench epoch` measures them side by side."
    )


def _first_verdicts(report: Report) -> dict[tuple[str, str], str]:
    """Verdicts on RADE against plain; runs that stand in several tables count once, by the first."""
    found: dict[tuple[str, str], str] = {}
    for one in report.comparisons:
        if one.kind == "plain" and not one.cell.is_baseline and one.cell.filled and one.reference.filled:
            found.setdefault((one.cell.filled.group.name, one.reference.filled.group.name), one.code)
    return found


def _folds_last(rules: list[str]) -> list[str]:
    return sorted(rules, key=lambda rule: "fold" in rule)


def tally(table: Table) -> dict[str, int]:
    """How often a table's own methods came out how against the plain backbone."""
    return dict(Counter(one.code for one in table.comparisons if one.kind == "plain" and not one.cell.is_baseline))


def close_to_paper(table: Table) -> str:
    """How many cells, of those run as the protocol has it, lie within the paper's std of the paper's mean."""
    kept = [cell for cell in table.filled if cell.filled and not cell.filled.departures]
    gaps = [(abs(cell.gap), cell.published.std) for cell in kept if cell.gap is not None and cell.published]
    if not gaps or not table.is_score:
        return "–"
    return f"{sum(gap <= std for gap, std in gaps)} of {len(gaps)}"
