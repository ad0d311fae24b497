"""The files of a report: complete, safe, the same every time, and made without torch."""

import random
import re
from dataclasses import replace

import pytest
from tests.report.synthetic import MAIN, cell, report, row, save, store

from rade.errors import RunError
from rade.report import write
from rade.report.render import escape_latex, escape_markdown, markdown, page

ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>|`$\\_$"
FILES = ["report.html", "results.md", "headline.md", "tables.tex"]


def poisoned(value):
    """The same row with an attack in every text, and in every key that a run may choose."""
    if isinstance(value, dict):
        free = ("cpu", "torch", "raw.x")
        return {f"{key}{ATTACK}" if key in free else key: poisoned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one) for one in value]
    return value + ATTACK if isinstance(value, str) else value


def test_everything_is_escaped_and_nothing_comes_from_elsewhere():
    bad = [poisoned(one) | {"key": one["key"][::-1]} for one in store(3)]
    rows = tuple(replace(one, name=one.name + ATTACK) for one in MAIN.rows)
    named = replace(MAIN, title=ATTACK, note=ATTACK, rows=rows)
    found = report(store(3) + bad, named)
    text = page(found)
    assert text.count('<svg class="plot"') == 1
    assert "prefers-color-scheme: dark" in text
    assert not re.findall(r"#0[12]010[a-e]", text)  # pictures have the colours of the page
    assert text.count("<script") == 1
    assert not re.findall(r'<\w+(?:\s+[\w:-]+(?:="[^"]*")?)*\s+on\w+=', text)  # an attribute, not a text in one
    for written in (text, markdown(found)):
        assert "<script>alert" not in written
        assert "<img" not in written
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", text)
    assert "@import" not in text
    assert re.search(r"default-src &#39;none&#39;; .*script-src &#39;sha256-", text)
    assert escape_markdown("a|b_<i>*\n`") == "a\\|b\\_&lt;i&gt;\\* \\`"
    assert escape_latex("50 % & a_b ± 1 \\x{}") == r"50 \% \& a\_b $\pm$ 1 \textbackslash{}x\{\}"


def test_tables_in_latex_are_whole(tmp_path):
    latex = write(report(store(3)), tmp_path, ["tex"])[0].read_text()
    body = latex[latex.index(r"\toprule") : latex.index(r"\bottomrule")]
    lines = [one for one in body.splitlines() if one.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", one)) for one in lines} == {2}
    assert len(lines) == 1 + 2 * len(MAIN.rows)


def test_the_same_store_gives_the_same_bytes(tmp_path):
    rows = store(4)[:-4] + cell(0.7, 0.01, 2, dataset="mine", method="none")
    first = report(rows)
    random.Random(0).shuffle(rows)
    for name, found in (("a", first), ("b", report(rows))):
        write(found, tmp_path / name)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(FILES)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_folds_without_curves_are_refused():
    with pytest.raises(RunError, match="lacks the curve of validation scores"):
        report([row(0.8, folds=10) | {"history": {}}])


def test_the_command_writes_and_tells(rade, tmp_path):
    save(store(4, rade_of=0.02) + cell(0.7, 0.01, 2, dataset="citeseer", method="none"), tmp_path / "results")
    code, out, err = rade("report", "--tables", "node-gcn", "--format", "md")
    assert (code, err) == (0, "")
    assert out.startswith("22 runs on 2 data sets; 6 of 64 cells in 1 table have runs.")
    assert out.endswith("in report: results.md, headline.md\n")
    assert (tmp_path / "report/results.md").read_text().startswith("# RADE: results\n")
