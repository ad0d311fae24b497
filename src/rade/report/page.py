"""The report as one HTML page that needs nothing but itself."""

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from rade.errors import RadeError
from rade.report import numbers
from rade.report.build import Report
from rade.report.compare import AGAINST, Comparison
from rade.report.costs import costs
from rade.report.csv import record
from rade.report.environment import environment, settings_words
from rade.report.judge import WORDS
from rade.report.lines import HEAD, NUMERIC, run_lines
from rade.report.overall import Interval
from rade.report.overview import close_to_paper, sentence, summary, tally
from rade.report.panels import curve_panels, strip_panels, styles
from rade.report.svg import interval
from rade.report.tables import Table
from rade.statistics import number, signed

SIGNS = {"better": "▲", "worse": "▼", "hint": "◇", "same": "≈", "unjudged": "·"}


class ReportError(RadeError):
    """A report that cannot be made."""


def page(report: Report) -> str:
    """The whole page; everything that comes from the store is escaped, and only the page's own script may run."""
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise ReportError("the HTML page needs Jinja2; install it with pip install 'rade-gnn[report]'") from None
    machine = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    machine.filters.update(_filters(markupsafe.Markup))
    style, script = _packaged("page.css"), _packaged("page.js")
    return machine.from_string(_packaged("page.html.j2")).render(
        report=report,
        summary=summary(report),
        made=environment(report.runs),
        style=markupsafe.Markup(style),
        script=markupsafe.Markup(script),
        policy=_policy(style, script),
        rows=markupsafe.Markup(_embedded(report)),
        run_head=HEAD,
        run_numeric=NUMERIC,
        run_lines=run_lines(report),
        signs=SIGNS,
        words=WORDS,
        against=AGAINST,
        **_functions(),
    )


def _filters(markup: Any) -> dict[str, Any]:
    return {
        "number": number,
        "signed": signed,
        "mean_std": numbers.mean_std,
        "p_value": numbers.p_value,
        "duration": numbers.duration,
        "many": numbers.many,
        "drawn": markup,  # only for what rade.report.svg and lines made, which escape their texts themselves
    }


def _functions() -> dict[str, Any]:
    return {
        "sentence": sentence,
        "tally": tally,
        "close_to_paper": close_to_paper,
        "strip_panels": strip_panels,
        "curve_panels": curve_panels,
        "styles": styles,
        "costs": costs,
        "reach": reach,
        "drawn_interval": drawn_interval,
        "drawn_change": drawn_change,
        "seeds": numbers.seeds,
        "settings_words": settings_words,
    }


def reach(table: Table) -> float:
    """Half the width of the axis of a table's differences: most intervals fit, the widest may leave it."""
    ends = sorted(max(abs(one.result.low or one.result.mean), abs(one.result.high or 0)) for one in table.comparisons)
    return ends[int(0.9 * (len(ends) - 1))] or 1.0 if ends else 1.0


def drawn_interval(one: Comparison, width: float) -> str:
    """The picture of a comparison."""
    return interval(one.result.mean, one.result.low, one.result.high, width, one.code)


def drawn_change(found: Interval, zero: float, width: float) -> str:
    """The picture of a bootstrapped number around the value that means no change."""
    return interval(found.value - zero, found.low - zero, found.high - zero, width, "same")


def _packaged(name: str) -> str:
    return resources.files("rade.report").joinpath(name).read_text("utf-8")


def _embedded(report: Report) -> str:
    """The rows as JSON that cannot end its script element."""
    text = json.dumps([record(run, report) for run in report.runs], separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(style: str, script: str) -> str:
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
