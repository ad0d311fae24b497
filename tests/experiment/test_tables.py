"""Every packaged table can be read and run, and holds the paper's numbers; and which runs a table plans."""

import hashlib
import re
from pathlib import Path

import pytest

from rade import experiment
from rade.data import DataError, load
from rade.data.catalogue import catalogue
from rade.experiment.plan import plan, select
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


@pytest.fixture
def tiny(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return list(experiment.cells(experiment.read(table())))


def test_candidates_run_in_turn(tiny):
    (_, (_, tuned)), problems = plan(tiny, load)
    assert problems == []
    assert [(job.settings.options["rate"], job.run) for job in tuned] == [(0.2, 0), (0.2, 1), (0.5, 0), (0.5, 1)]


def test_what_the_user_wants_wins(tiny):
    """Settings reach the rows that have them; rows go by name or method; cells without data are told and left out."""
    (_, plain), (_, tuned) = plan(tiny, load, None, "paper", {"epochs": 9, "rate": 0.7})[0]
    assert {job.settings.epochs for job in (*plain, *tuned)} == {9}
    assert {job.settings.options["rate"] for job in tuned} == {0.7}
    assert plain[0].settings.protocol == "paper"
    assert [cell.row.method for cell in select(tiny, methods=("none",))] == ["none"]
    assert [cell.row.method for cell in select(tiny, methods=("DropEdge, tuned",))] == ["drop-edge"]
    assert len(select(tiny, ("CSBM",), backbones=("gcn",))) == 2

    def absent(name):
        raise DataError("it is not there")

    assert plan(tiny, absent) == ([], ["csbm: it is not there"])
