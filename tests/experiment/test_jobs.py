"""From tables to runs, and which runs a shard, a store and a search leave."""

from dataclasses import replace

import pytest

from rade.experiment.grid import Shard, missing_jobs
from rade.experiment.guess import guess
from rade.experiment.jobs import Facts, Wish, plan, select
from rade.experiment.table import cells, read
from rade.train.errors import SettingsError
from rade.train.settings import resolve

ORIGIN = {"name": "csbm", "files": {}, "options": {}}


def facts(folds=0):
    return lambda name: Facts(ORIGIN | {"name": name}, folds)


@pytest.fixture
def tiny(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return list(cells(read(table())))


def test_a_cell_has_a_run_per_seed_and_candidate(tiny):
    (plain, tuned), problems = plan(tiny, Wish(), facts())
    assert problems == []
    assert [(job.settings.seed, job.run) for job in plain.jobs] == [(0, 0), (0, 1)]
    assert [(job.settings.options["rate"], job.run) for job in tuned.jobs] == [(0.2, 0), (0.2, 1), (0.5, 0), (0.5, 1)]
    assert (plain.candidates, tuned.candidates) == (1, 2)
    assert {job.settings.protocol for job in plain.jobs} == {"released"}
    assert len({job.key for job in (*plain.jobs, *tuned.jobs)}) == 6


def test_folds_run_whole_and_are_repeated_with_other_seeds(tiny):
    once, twice = (plan(tiny[:1], Wish(seeds=seeds), facts(folds=3))[0][0].jobs for seeds in (None, 2))
    assert [(job.settings.seed, job.run) for job in once] == [(0, 0), (0, 1), (0, 2)]
    assert [(job.settings.seed, job.run) for job in twice[3:]] == [(1000, 0), (1000, 1), (1000, 2)]
    assert once == twice[:3]


def test_settings_of_the_user_win_and_reach_the_rows_that_have_them(tiny):
    plain, tuned = plan(tiny, Wish(overrides={"epochs": 9, "rate": 0.7}, protocol="paper"), facts())[0]
    assert {job.settings.epochs for job in (*plain.jobs, *tuned.jobs)} == {9}
    assert {job.settings.options["rate"] for job in tuned.jobs} == {0.7}
    assert plain.jobs[0].settings.protocol == "paper"


def test_tables_share_runs(tiny):
    tasks, _ = plan([*tiny, *tiny], Wish(), facts())
    assert len(missing_jobs(tasks, set(), Shard())) == 6


def test_rows_go_by_name_or_method(tiny):
    assert [cell.row.method for cell in select(tiny, Wish(methods=("none",)))] == ["none"]
    assert [cell.row.method for cell in select(tiny, Wish(methods=("dropedge,-tuned",)))] == ["drop-edge"]
    assert len(select(tiny, Wish(datasets=("CSBM",), backbones=("gcn",)))) == 2


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"datasets": ("coar",)}, "unknown data set 'coar'; did you mean 'cora'"),
        ({"datasets": ("cora",)}, "unknown data set of these tables 'cora'.* Known: csbm"),
        ({"methods": ("rade-of",)}, "unknown method of these tables 'rade-of'"),
        ({"backbones": ("gat",)}, "unknown backbone of these tables 'gat'.* Known: gcn"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"overrides": {"seed": 3}}, "--set seed has no use here; it is --seeds that decides it"),
        ({"overrides": {"p": 0.3}}, "p is no option of none, drop-edge; it belongs to rade-of"),
        ({"overrides": {"epohcs": 3}}, "unknown setting 'epohcs'; did you mean 'epochs'"),
        ({"protocol": "relased"}, "unknown protocol 'relased'; did you mean 'released'"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(wish, sentence, tiny):
    with pytest.raises(ValueError, match=sentence):
        plan(select(tiny, Wish(**wish)), Wish(**wish), facts())


def test_cells_without_data_are_told_and_left_out(tiny):
    from rade.data import DataError

    def absent(name):
        raise DataError("it is not there")

    assert plan(tiny, Wish(), absent) == ([], ["csbm: it is not there"])


def test_shards_are_a_partition(tiny):
    tasks, _ = plan(tiny, Wish(seeds=20), facts())
    parts = [{job.key for job in missing_jobs(tasks, set(), Shard(index, 3))} for index in (1, 2, 3)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 60
    assert min(map(len, parts)) > 0
    for text in ("0/3", "4/3", "3", "a/b", "1/0"):
        with pytest.raises(SettingsError, match="shard"):
            Shard.parse(text)


@pytest.mark.parametrize("dataset", ["cora", "ogbn-arxiv", "mutag", "ogbg-molhiv"])
def test_guesses_grow_with_the_work(dataset):
    small = resolve(dataset, "gcn", "none", hidden=16).model_dump(mode="json")
    wide, rade = {**small, "hidden": 64}, {**small, "method": "rade-of"}
    assert 0 < guess(small) < guess(wide)
    assert guess(small) < guess({**small, "method": "rade-of-fixed"}) < guess(rade)
    batches = small["batch_size"] > 0  # else every step takes the whole graph, however few nodes are labelled
    assert (guess({**small, "train_items": 5}) < guess(small)) == batches


def test_a_setting_that_a_table_gets_wrong_is_told_with_its_row(tiny):
    for settings, sentence in (({"epoch": 5}, "unknown setting 'epoch'"), ({"epochs": -5}, "epochs must be greater")):
        wrong = replace(tiny[0], row=replace(tiny[0].row, settings=settings))
        with pytest.raises(SettingsError, match=f"table tiny, row 'Plain': {sentence}"):
            plan([wrong], Wish(), facts())
