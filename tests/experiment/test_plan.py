"""From tables to runs: candidates, and what the user wants of them; doctests of `plan.py` show seeds and folds."""

import pytest

from rade.data import DataError
from rade.experiment.grid import Grid
from rade.experiment.plan import Facts, Wish, plan, select
from rade.experiment.table import cells, read


def facts(name):
    return Facts({"name": name, "files": {}, "options": {}}, folds=0)


@pytest.fixture
def tiny(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return list(cells(read(table())))


def test_candidates_run_in_turn_and_tables_share_runs(tiny):
    (_, tuned, *_), problems = plan([*tiny, *tiny], Wish(), facts)
    assert problems == []
    assert [(job.settings.options["rate"], job.run) for job in tuned.jobs] == [(0.2, 0), (0.2, 1), (0.5, 0), (0.5, 1)]
    assert len(Grid([tuned, tuned], {tuned.jobs[0].key}).queue) == 3


def test_what_the_user_wants_wins(tiny):
    """Settings reach the rows that have them; rows go by name or method; cells without data are told and left out."""
    plain, tuned = plan(tiny, Wish(overrides={"epochs": 9, "rate": 0.7}, protocol="paper"), facts)[0]
    assert {job.settings.epochs for job in (*plain.jobs, *tuned.jobs)} == {9}
    assert {job.settings.options["rate"] for job in tuned.jobs} == {0.7}
    assert plain.jobs[0].settings.protocol == "paper"
    assert [cell.row.method for cell in select(tiny, Wish(methods=("none",)))] == ["none"]
    assert [cell.row.method for cell in select(tiny, Wish(methods=("dropedge,-tuned",)))] == ["drop-edge"]
    assert len(select(tiny, Wish(datasets=("CSBM",), backbones=("gcn",)))) == 2

    def absent(name):
        raise DataError("it is not there")

    assert plan(tiny, Wish(), absent) == ([], ["csbm: it is not there"])
