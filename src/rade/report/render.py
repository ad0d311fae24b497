"""A report's files by templates: one HTML page, Markdown, LaTeX; written whole or not at all."""

import base64
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rade.errors import unknown
from rade.report import figures, words
from rade.report.judge import WORDS
from rade.report.tables import Report, Table
from rade.statistics import many, number, signed
from rade.train.files import save_bytes

SIGNS = {"better": "▲", "worse": "▼", "hint": "◇", "same": "≈", "unjudged": "·"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]|#])")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": "$-$", "±": r"$\pm$", "–": "--", "…": r"\dots{}", "|": r"\textbar{}",
}  # fmt: skip


def headline(report: Report) -> str:
    """The README's table, from the fullest one with a plain backbone and RADE: scores, and paired gains over plain.

    Tables with the paper's numbers come first, then those that have baselines. Of several plain rows all
    are named: each gain is over the one with the same settings.
    """

    def rank(table: Table) -> tuple[bool, bool, int]:
        published = any(cell.published for cell in table.filled)
        return published, "baseline" in table.roles, len(table.filled)

    whole = [table for table in report.tables if table.is_score and {"plain", "rade"} <= table.roles]
    if not whole:
        return "No table with a plain backbone and RADE has been run yet.\n"
    table = max(whole, key=rank)
    ours = dict.fromkeys(cell.row.name for cell in table.filled if cell.row.role == "rade")
    return _rendered("headline.md.j2", table=table, ours=list(ours))


def page(report: Report) -> str:
    """One HTML page that needs nothing but itself; what comes from the store is escaped, no other script may run."""
    script = _packaged("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    return _rendered("page.html.j2", report=report, style=_packaged("page.css"), script=script, policy=policy)


def escape_markdown(text: object) -> str:
    """Text that Markdown and the HTML inside it leave alone."""
    plain = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", " ".join(plain.split()))


def escape_latex(text: object) -> str:
    """Text in which LaTeX sees nothing special.

    >>> escape_latex("w/o GN & EPC_1")
    'w/o GN \\\\& EPC\\\\_1'
    """
    return "".join(_LATEX.get(character, character) for character in " ".join(str(text).split()))


@cache
def _templates() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("rade.report")
    made = jinja2.Environment(
        loader=loader,
        autoescape=lambda name: name == "page.html.j2",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"md": escape_markdown, "tex": escape_latex, "number": number, "signed": signed}
    for function in (words.mean_std, words.p_value, words.duration, many):
        made.filters[function.__name__] = function
    made.globals |= {"words": words, "figures": figures, "verdicts": WORDS, "signs": SIGNS}
    return made


def markdown(report: Report) -> str:
    """The whole report as Markdown, fit for `docs/results.md`."""
    return _rendered("results.md.j2", report=report)


def _rendered(template: str, **values: Any) -> str:
    return str(_templates().get_template(template).render(**values))


def _packaged(name: str) -> str:
    return str(_templates().loader.get_source(_templates(), name)[0])


FORMATS: Mapping[str, Mapping[str, Callable[[Report], str]]] = {
    "html": {"report.html": page},
    "md": {"results.md": markdown, "headline.md": headline},
    "tex": {"tables.tex": lambda report: _rendered("tables.tex.j2", report=report)},
}


def write(report: Report, folder: Path, formats: Collection[str] = tuple(FORMATS)) -> tuple[Path, ...]:
    """Write the files of these formats; the same runs give the same bytes."""
    for name in formats:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    texts = {folder / file: make(report) for name in formats for file, make in FORMATS[name].items()}
    for file, text in texts.items():
        save_bytes(file, text.encode())
    return tuple(texts)
