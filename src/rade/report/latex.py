"""The tables as LaTeX, for `booktabs`."""

import re

from rade.report.build import Report
from rade.report.match import Cell
from rade.report.numbers import mean_std
from rade.report.tables import Table
from rade.statistics import signed

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": "$-$", "±": r"$\pm$", "–": "--", "…": r"\dots{}", "|": r"\textbar{}",
}  # fmt: skip
_PATTERN = re.compile("[" + re.escape("".join(_SPECIAL)) + "]")


def latex(report: Report) -> str:
    """One table environment per table."""
    head = f"% {' '.join(report.title.split())}\n% \\usepackage{{amssymb,booktabs,graphicx}}\n"
    return head + "".join("\n" + _table(table) for table in report.tables)


def escape(text: object) -> str:
    """Text in which LaTeX sees nothing special.

    >>> escape("w/o GN & EPC_1")
    'w/o GN \\\\& EPC\\\\_1'
    """
    return _PATTERN.sub(lambda found: _SPECIAL[found.group()], " ".join(str(text).split()))


def _table(table: Table) -> str:
    experiment = table.experiment
    columns = len(experiment.datasets)
    unit = f"Mean $\\pm$ std, {escape(table.words)}"
    if any(cell.published for cell in table.cells):
        unit += "; below it the paper's and the difference to it"
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        f"\\caption{{{escape(experiment.title)}. {unit}. "
        f"$^\\blacktriangle$, $^\\blacktriangledown$: better, worse than the plain backbone after Holm's correction.}}",
        f"\\label{{tab:rade-{re.sub(r'[^a-z0-9-]', '-', experiment.name.lower())}}}",
        r"\resizebox{\textwidth}{!}{%",
        f"\\begin{{tabular}}{{ll{'c' * columns}}}",
        r"\toprule",
        " & ".join(["backbone", "method", *(escape(name) for name in experiment.datasets)]) + r" \\",
    ]
    backbone = None
    for line in table.lines:
        if line.backbone != backbone:
            lines.append(r"\midrule")
        backbone = line.backbone
        ours = [_ours(table, cell) for cell in line.cells]
        paper = [_paper(cell, table.digits) for cell in line.cells]
        lines.append(" & ".join([escape(backbone), escape(line.row.name), *ours]) + r" \\")
        if any(paper):
            lines.append(" & ".join(["", "", *paper]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]) + "\n"


def _ours(table: Table, cell: Cell) -> str:
    if cell.filled is None:
        return "not run"
    one = table.against(cell, "plain")
    mark = {"better": r"$^\blacktriangle$", "worse": r"$^\blacktriangledown$"}.get(one.code if one else "", "")
    return escape(mean_std(cell.filled.spread, table.digits)) + mark


def _paper(cell: Cell, digits: int) -> str:
    if cell.published is None:
        return ""
    gap = "" if cell.gap is None else f", {signed(cell.gap, digits)}"
    return f"{{\\scriptsize {escape(mean_std(cell.published, digits) + gap)}}}"
