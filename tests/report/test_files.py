"""The files of a report: complete, safe, the same every time, and made without torch."""

import csv
import html.parser
import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.report.synthetic import MAIN, Experiment, Row, cell, row, save, store

from rade.report import build, read_rows, write
from rade.report.latex import escape as escape_latex
from rade.report.latex import latex
from rade.report.markdown import escape as escape_markdown
from rade.report.markdown import markdown
from rade.report.page import page
from rade.report.rows import Problem

ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>|`$\\_"
FILES = ["report.html", "results.md", "headline.md", "tables.tex", "cells.csv", "comparisons.csv", "rows.csv"]


def report(rows, *experiments, problems=(), title="RADE: results"):
    runs, broken = read_rows(rows)
    return build(runs, experiments or (MAIN,), (*problems, *broken), title)


class Elements(html.parser.HTMLParser):
    """Names of all elements, attributes of all, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.scripts, self.inside = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        self.attributes += [name for name, _ in attributes]
        self.inside = tag == "script"
        self.scripts += [""] if self.inside else []

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        self.inside = False


def poisoned(value):
    """The same row with an attack in every text, and in every key that a run may choose."""
    if isinstance(value, dict):
        free = ("cpu", "torch", "raw.x")
        return {f"{key}{ATTACK}" if key in free else key: poisoned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one) for one in value]
    return value + ATTACK if isinstance(value, str) else value


def test_everything_from_the_store_is_escaped():
    bad = [poisoned(line) for line in store(3)]
    for number, line in enumerate(bad):
        line["key"] += str(number)
    text = page(report(store(3) + bad, problems=[Problem(ATTACK, ATTACK)], title=ATTACK))
    found = Elements(text)
    assert found.names.count("script") == 2
    assert "img" not in found.names
    assert not [name for name in found.attributes if name.startswith("on")]
    assert any(one["command"].endswith(ATTACK) for one in json.loads(found.scripts[0]))
    assert "<script>alert" not in text
    assert "<img" not in text


def test_texts_of_tables_are_escaped():
    from dataclasses import replace

    rows = tuple(replace(line, name=line.name + ATTACK) for line in MAIN.rows)
    bad = replace(MAIN, title=ATTACK, note=ATTACK, rows=rows)
    for text in (page(report(store(3), bad)), markdown(report(store(3), bad))):
        assert "<script>alert" not in text
        assert "<img" not in text


def test_the_page_needs_nothing_from_elsewhere():
    text = page(report(store(3)))
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", text)
    assert "url(" not in text
    assert "@import" not in text
    assert re.search(r"default-src &#39;none&#39;; .*script-src &#39;sha256-", text)


def test_markdown_and_latex_escape():
    assert escape_markdown("a|b_<i>*\n`") == "a\\|b\\_&lt;i&gt;\\* \\`"
    assert escape_latex("50 % & a_b ± 1 \\x{}") == r"50 \% \& a\_b $\pm$ 1 \textbackslash{}x\{\}"


def test_latex_is_balanced():
    text = latex(report(store(3)))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {2}
    assert len(lines) == 1 + 2 * len(MAIN.rows)


def test_markdown_tables_are_whole():
    rows = [*store(3), *cell(0.7, 0.01, 2, dataset="mine", method="none")]
    text = markdown(report(rows, problems=[Problem("broken.json", "is no JSON")]))
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert "broken.json: is no JSON" in text
    assert "mine" in text
    assert "ab" * 32 in text


def test_commands_of_equal_runs_are_one():
    rows = store(3)
    for line in rows:
        line["command"] = f"rade train --method {line['settings']['method']} --run {line['run']} --seed 0"
    assert "- rade train --method none --run R --seed 0 (3 runs)\n" in markdown(report(rows))


def test_the_same_store_gives_the_same_bytes(tmp_path):
    rows = store(4) + cell(0.7, 0.01, 2, dataset="mine", method="none")
    first = report(rows)
    random.Random(0).shuffle(rows)
    for name, found in (("a", first), ("b", report(rows))):
        write(found, tmp_path / name)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(FILES)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_every_run_is_in_the_rows(tmp_path):
    rows = store(4) + cell(0.7, 0.01, 2, dataset="mine", method="none") + [row(0.7, method="none", numerics=2)]
    found = report(rows)
    write(found, tmp_path, ["csv", "html"])
    listed = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert {line["key"] for line in listed} == {line["key"] for line in rows}
    text = (tmp_path / "report.html").read_text()
    assert all(line["key"][:12] in text for line in rows)
    assert {one["key"] for one in json.loads(Elements(text).scripts[0])} == {line["key"] for line in rows}


def test_many_runs_are_listed_in_parts():
    rows = [row(0.8, run=run, dataset=name, method="none") for name in ("cora", "mine") for run in range(501)]
    text = page(report(rows))
    assert text.count('<details class="long">') == 2
    assert all(line["key"][:12] in text for line in rows)


def test_a_papers_mean_off_the_panel_points_there():
    near = page(report(cell(0.8, 0.01, 5, method="none")))
    far = page(report(cell(0.2, 0.01, 5, method="none")))
    assert 'l4.5 4.5l-4.5 4.5l-4.5 -4.5z"><title>the paper: 80.10' in near
    assert 'v9l6 -4.5z"><title>the paper: 80.10' in far


def test_csv_has_all_cells_and_comparisons(tmp_path):
    write(report(store(5)[:-5]), tmp_path, ["csv"])
    cells = list(csv.DictReader(io.StringIO((tmp_path / "cells.csv").read_text())))
    assert [line["runs"] for line in cells] == ["5", "5", "5", "5", "0"]
    assert cells[3]["paper_mean"] == "81.08"
    compared = list(csv.DictReader(io.StringIO((tmp_path / "comparisons.csv").read_text())))
    assert {line["against"] for line in compared} == {"plain", "baseline"}
    assert all(line["sentence"] for line in compared)


def test_an_empty_store_gives_an_empty_report():
    found = report([])
    assert "0 runs on 0 data sets." in page(found)
    assert markdown(found).startswith("# RADE: results")


def test_the_command_writes_and_tells(rade, tmp_path):
    save(store(4, rade_of=0.02), tmp_path / "results")
    code, out, err = rade("report")
    assert code == 0
    assert out.startswith("20 runs on 1 data set; 5 of 5 cells in 1 table have runs.")
    assert "in report: report.html, results.md" in out
    assert err == ""
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == sorted(FILES)


def test_the_command_as_json(rade, tmp_path):
    save(store(2), tmp_path / "mine")
    code, out, err = rade("report", "mine", "--out", "there", "--format", "md,csv", "--title", "Mine", "--json")
    document = json.loads(out)
    assert (code, err, document["runs"], document["problems"]) == (0, "", 10, [])
    assert {Path(file).name for file in document["files"]} == set(FILES) - {"report.html", "tables.tex"}
    assert (tmp_path / "there" / "results.md").read_text().startswith("# Mine\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "error: there is no store at nowhere; rade reproduce makes one"),
        ([".", "--format", "pdf"], "error: unknown format 'pdf'; there are html, md, tex, csv"),
        ([".", "--tables", "nodes"], "error: unknown table 'nodes'. Known: main"),
        (["store", "--out", "file/below"], "error: cannot write file/below/report.html: Not a directory; choose"),
    ],
)
def test_wrong_input_is_one_sentence(rade, tmp_path, arguments, sentence):
    (tmp_path / "file").write_text("")
    save(store(2), tmp_path / "store")
    code, out, err = rade("report", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_without_jinja_the_page_is_refused_in_a_sentence(rade, tmp_path, monkeypatch):
    save(store(2), tmp_path / "results")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, _, err = rade("report")
    assert (code, err) == (2, "error: the HTML page needs Jinja2; install it with pip install 'rade-gnn[report]'\n")
    assert not (tmp_path / "report").exists()
    assert rade("report", "--format", "md")[0] == 0


def test_no_torch(tmp_path):
    """In a fresh process, since the tests' own has long imported it."""
    save(store(3), tmp_path / "results")
    code = (
        "import sys, json\n"
        "from pathlib import Path\n"
        "from tests.report.synthetic import MAIN\n"
        "import rade.commands.report\n"
        "from rade.report import build, read_folder, write\n"
        "runs, problems = read_folder(Path(sys.argv[1]))\n"
        "write(build(runs, [MAIN], problems), Path(sys.argv[2]))\n"
        "heavy = {'torch', 'torch_geometric', 'pandas', 'sklearn', 'matplotlib'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "results"), str(tmp_path / "report")]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert (tmp_path / "report" / "report.html").exists()


def test_a_folder_without_runs_is_a_sentence_and_keeps_the_last_report(rade, tmp_path):
    save([], tmp_path / "empty")
    (tmp_path / "report").mkdir()
    (tmp_path / "report/results.md").write_text("the last one")
    code, _, err = rade("report", "empty")
    assert code == 2
    assert "holds no finished run; rade results STORE merge FOLDER takes in" in err
    assert (tmp_path / "report/results.md").read_text() == "the last one"


def test_lines_without_runs_or_printed_numbers_are_named_below_the_table():
    ours = Experiment("ours", "Ours", (Row("GCN", "none"), Row("Never", "dropout"), Row("RADE-OF", "rade-of")))
    text = markdown(report(store(), ours))
    assert "| gcn | GCN |" in text
    assert "| Never |" not in text
    assert "Not run at all: gcn: Never." in text
    assert "Not run at all" not in markdown(report(store(), MAIN))
