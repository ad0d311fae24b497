"""From tables to runs: seeds, folds, candidates, and what the user wants of them."""

import pytest

from rade.data import DataError
from rade.experiment.grid import Grid
from rade.experiment.plan import Facts, Wish, plan, select
from rade.experiment.table import cells, read

ORIGIN = {"name": "csbm", "files": {}, "options": {}}


def facts(folds=0):
    return lambda name: Facts(ORIGIN | {"name": name}, folds)


@pytest.fixture
def tiny(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return list(cells(read(table())))


def test_a_cell_has_a_run_per_seed_and_candidate_and_tables_share_runs(tiny):
    (plain, tuned), problems = plan(tiny, Wish(), facts())
    assert problems == []
    assert [(job.settings.seed, job.run) for job in plain.jobs] == [(0, 0), (0, 1)]
    assert [(job.settings.options["rate"], job.run) for job in tuned.jobs] == [(0.2, 0), (0.2, 1), (0.5, 0), (0.5, 1)]
    assert (plain.candidates, tuned.candidates) == (1, 2)
    tasks, _ = plan([*tiny, *tiny], Wish(), facts())
    assert len(Grid(tasks, set()).queue) == 6
    grid = Grid(tasks, {plain.jobs[0].key})
    assert (len(grid.queue), grid.missing(tasks[0]), grid.finished) == (5, 1, 0)


def test_folds_run_whole_and_are_repeated_with_other_seeds(tiny):
    once, twice = (plan(tiny[:1], Wish(seeds=seeds), facts(folds=3))[0][0].jobs for seeds in (None, 2))
    assert [(job.settings.seed, job.run) for job in once] == [(0, 0), (0, 1), (0, 2)]
    assert [(job.settings.seed, job.run) for job in twice[3:]] == [(1000, 0), (1000, 1), (1000, 2)]
    assert once == twice[:3]


def test_what_the_user_wants_wins(tiny):
    """Settings reach the rows that have them; rows go by name or method; cells without data are told and left out."""
    plain, tuned = plan(tiny, Wish(overrides={"epochs": 9, "rate": 0.7}, protocol="paper"), facts())[0]
    assert {job.settings.epochs for job in (*plain.jobs, *tuned.jobs)} == {9}
    assert {job.settings.options["rate"] for job in tuned.jobs} == {0.7}
    assert plain.jobs[0].settings.protocol == "paper"
    assert [cell.row.method for cell in select(tiny, Wish(methods=("none",)))] == ["none"]
    assert [cell.row.method for cell in select(tiny, Wish(methods=("dropedge,-tuned",)))] == ["drop-edge"]
    assert len(select(tiny, Wish(datasets=("CSBM",), backbones=("gcn",)))) == 2

    def absent(name):
        raise DataError("it is not there")

    assert plan(tiny, Wish(), absent) == ([], ["csbm: it is not there"])
