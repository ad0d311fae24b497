"""The files of a report: complete, safe, the same every time, and made without torch."""

import json
import random
import re
from dataclasses import replace

import pytest
from tests.report.synthetic import MAIN, cell, report, row, save, store

from rade.errors import RunError
from rade.report import read_store, write
from rade.report.render import escape_latex, escape_markdown, markdown, page

ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>|`$\\_$"
FILES = ["report.html", "results.md", "headline.md", "tables.tex"]
MEASURED = {
    "gap": 0.1, "beyond": 0.25,
    "steps": [{"distance": 0, "pairs": 2, "sensitivity": 1.0}, {"distance": 2, "pairs": 9, "sensitivity": 0.0}],
    "flips": {kind: {"0.3": 0.125} for kind in ("drop", "add", "both")},
}  # fmt: skip
DIAGNOSIS = {
    "dataset": "co<ra", "model": "gcn, none", "nodes": 2708, "edges": 5278, "graphs": 1, "layers": 2,
    "p": 0.5, "q": 0.00072, "notes": ["16 <nodes>"], "operators": {"clean": MEASURED, "rade-ofs": MEASURED},
}  # fmt: skip


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


def test_a_store_tells_of_diagnoses_and_damage(tmp_path):
    save(store(2), tmp_path)
    (tmp_path / "studies/diagnoses").mkdir(parents=True)
    (tmp_path / "studies/diagnoses/x.json").write_text(json.dumps(DIAGNOSIS))
    told = replace(report(store(2)), stored=read_store(tmp_path))
    for text in (page(told), markdown(told)):
        assert "co&lt;ra" in text
        assert "sensitivity from beyond 2 edges" in text
        assert "12.5 %" in text
    assert "0 runs on 0 data sets." in page(report([]))
    (tmp_path / "studies/diagnoses/torn.json").write_text("{")
    with pytest.raises(RunError, match=r"torn.json was not written by rade diagnose; delete it"):
        read_store(tmp_path)
    with pytest.raises(RunError, match="lacks the curve of validation scores"):
        report([row(0.8, folds=10) | {"history": {}}])


def test_the_command_writes_and_tells(rade, tmp_path):
    save(store(4, rade_of=0.02) + cell(0.7, 0.01, 2, dataset="citeseer", method="none"), tmp_path / "results")
    code, out, err = rade("report", "--tables", "node-gcn", "--format", "md")
    assert (code, err) == (0, "")
    assert out.startswith("22 runs on 2 data sets; 6 of 64 cells in 1 table have runs.")
    assert out.endswith("in report: results.md, headline.md\n")
    assert (tmp_path / "report/results.md").read_text().startswith("# RADE: results\n")
