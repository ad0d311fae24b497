"""Every number of the paper's result tables stands in the packaged tables, in its row and column, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rade import experiment
from rade.data.catalogue import resolve

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "rade.tex"
pytestmark = pytest.mark.skipif(not PAPER.exists(), reason=f"the paper's source is not here ({PAPER.name})")
TABLES = [experiment.load(name) for name in experiment.names()]
LABELS = sorted({table.label for table in TABLES} - {""})


def environments() -> dict[str, str]:
    """The tables of the paper that hold results, by label."""
    text = "\n".join(line for line in PAPER.read_text("utf-8").splitlines() if not line.lstrip().startswith("%"))
    found = {}
    for body in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", text, flags=re.DOTALL):
        rules = re.split(r"\\(?:toprule|bottomrule)", body)
        if len(rules) == 3 and r"\pm" in rules[1]:
            (label,) = re.findall(r"\\label\{(.*?)\}", body)
            found[label] = rules[1]
    return found


def plain(text: str) -> str:
    """What is left of a cell when macros, braces and spacing are gone: `80.10±0.64`, `RADE-OF w/o GN & EPC`."""
    text = text.replace(r"\pm", "±").replace(r"\&", "&")
    text = re.sub(r"\\[a-zA-Z]+|\\!|[{}$]", "", text)
    return " ".join(text.split())


def printed(label: str) -> dict[tuple[str, str, str], tuple[float, float]]:
    """(backbone, row, data set) → mean, std of one table, in the order of the paper."""
    content = environments()[label].replace(r"\midrule", "")
    head, *lines = [[plain(cell) for cell in re.split(r"(?<!\\)&", line)] for line in content.split(r"\\")]
    backbone, found = "gcn", {}
    for line in lines:
        if line == [""]:
            continue
        if len(line) == 1:
            backbone = line[0].rpartition(" ")[2].lower()
            continue
        assert len(line) == len(head), line
        for column, cell in zip(head[1:], line[1:]):
            mean, std = re.fullmatch(r"(\d+\.\d+) ?_? ?± ?(\d+\.\d+)", cell).groups()
            key = (backbone, line[0], resolve(column).name)
            assert key not in found, key
            found[key] = (float(mean), float(std))
    return found


def stored(label: str) -> dict[tuple[str, str, str], tuple[float, float]]:
    """The same from the packaged tables, each of which holds one backbone's part."""
    found = {}
    for table in TABLES:
        if table.label != label:
            continue
        (backbone,) = table.backbones
        for cell in experiment.cells(table):
            if cell.published is not None:  # a row that is ours has no numbers at all, as another test holds
                found[backbone, cell.row.name, cell.dataset] = (cell.published.mean, cell.published.std)
    return found


def test_every_table_with_results_is_packaged():
    assert sorted(environments()) == LABELS
    assert len(LABELS) == 11


@pytest.mark.parametrize("label", LABELS)
def test_numbers_are_the_papers(label):
    assert stored(label) == printed(label)
    assert len(printed(label)) == environments()[label].count(r"\pm")


@pytest.mark.parametrize("label", LABELS)
def test_rows_and_columns_have_the_papers_order(label):
    for table in TABLES:
        if table.label == label:
            keys = [key for key in printed(label) if key[0] == table.backbones[0]]
            assert keys == [key for key in stored(label) if key[0] == table.backbones[0]]
