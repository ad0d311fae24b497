"""Every packaged table can be read and run, and holds the paper's numbers."""

import hashlib
import re
from pathlib import Path

import pytest

from rade import experiment
from rade.data.catalogue import catalogue
from rade.train.protocol import PROTOCOLS
from rade.train.settings import BACKBONES, METHODS, Settings, resolve

DOCS = Path(__file__).parents[2] / "docs" / "reproduce.md"
TABLES = [experiment.load(name) for name in experiment.names()]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_cell_resolves_to_settings(table):
    """With every combination that is searched; a setting that the method lacks would be refused."""
    assert table.protocol in PROTOCOLS
    assert set(table.datasets) <= set(catalogue())
    found = list(experiment.cells(table))
    assert len({str(cell) for cell in found}) == sum(len(row.backbones) for row in table.rows) * len(table.datasets)
    for cell in found:
        assert cell.row.method in METHODS
        assert cell.backbone in BACKBONES
        for searched in cell.row.candidates():
            chosen = cell.settings | searched
            settings = resolve(cell.dataset, cell.backbone, cell.row.method, table.protocol, **chosen)
            assert (settings.pool == "none") == (catalogue()[cell.dataset].level == "node"), cell
            fields = settings.model_dump(include=set(Settings.model_fields) - {"options"}) | settings.options
            assert chosen.items() <= fields.items(), cell


def test_the_papers_numbers_are_those_that_were_compared_with_its_source():
    """All 11 tables with results, cell by cell, were compared with the paper's TeX, and methods with the rows' names.

    A changed number or method shows here.
    """
    papers = [table for table in TABLES if table.label]
    assert len({table.label for table in papers}) == 11
    numbers = [
        f"{table.label} {table.backbones} {cell.row.name} {cell.row.method} {cell.dataset} {cell.published}"
        for table in papers
        for cell in experiment.cells(table)
        if cell.published
    ]
    digest = hashlib.sha256("\n".join(numbers).encode()).hexdigest()
    assert (len(numbers), digest[:16]) == (630, "91e584cc2b27428c")


def test_the_table_of_the_guide_can_be_read_and_it_names_all_packaged_ones(tmp_path):
    (content,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), flags=re.DOTALL)
    (tmp_path / "mine.toml").write_text(content, encoding="utf-8")
    test_every_cell_resolves_to_settings(experiment.read(tmp_path / "mine.toml"))
    assert set(experiment.names()) <= set(re.findall(r"`([a-z-]+)`", DOCS.read_text("utf-8")))
