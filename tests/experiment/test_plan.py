"""From tables to runs: candidates, and what the user wants of them; doctests of `plan.py` show seeds and folds."""

import pytest

from rade.data import DataError, load
from rade.experiment.plan import plan, select
from rade.experiment.table import cells, read


@pytest.fixture
def tiny(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return list(cells(read(table())))


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
