"""Settings that choose labels, corrupt the test alone, and what a row says of probabilities."""

import json
from dataclasses import replace

import pytest
import torch

from rade.augment import METHODS
from rade.augment.drop_edge import DropEdge
from rade.data import load
from rade.train import Interrupted, SettingsError, resolve, train_run
from rade.train.checkpoint import Keeping
from rade.train.errors import RunError
from rade.train.labels import few_of_each, shared_out
from rade.train.quality import calibration_error, quality
from rade.train.record import key_of
from rade.train.run import split_for
from rade.train.settings import all_options
from rade.train.task import Task


@pytest.fixture(scope="module")
def papers():
    return load("csbm", nodes=300)


def settings(method="none", **asked):
    return resolve("csbm", "gcn", method, **{"epochs": 4, "hidden": 8, "threads": 1, **asked})


@pytest.mark.parametrize("count", [1, 5])
def test_labels_per_class_are_drawn_from_the_training_part_by_the_seed(papers, count):
    split, y = papers.split(0), papers.graphs[0].y
    found, again, other = (split_for(papers, settings(labels_per_class=count, seed=seed), 0) for seed in (0, 0, 1))
    assert torch.bincount(y[found.train]).tolist() == [count] * papers.classes
    assert torch.isin(found.train, split.train).all()
    assert torch.equal(found.train, again.train)
    assert not torch.equal(found.train, other.train)
    assert torch.equal(found.test, split.test)
    assert torch.equal(found.val, split.val)


def test_fewer_items_are_drawn_from_the_training_part_by_the_seed(papers):
    split = papers.split(0)
    few, more, other = (
        split_for(papers, settings(train_items=count, seed=seed), 0) for count, seed in ((5, 0), (9, 0), (5, 1))
    )
    assert (len(few.train), len(more.train)) == (5, 9)
    assert torch.isin(few.train, more.train).all()
    assert torch.isin(more.train, split.train).all()
    assert not torch.equal(few.train, other.train)
    assert torch.equal(few.val, split.val)
    assert torch.equal(few.test, split.test)
    with pytest.raises(SettingsError, match=r"train_items must be at most \d+ on csbm, which has no more, got 1000"):
        split_for(papers, settings(train_items=1000), 0)


def test_a_share_splits_all_items_without_overlap():
    split = shared_out(torch.arange(100), 0.6, seed=3)
    assert [len(part) for part in (split.train, split.val, split.test)] == [60, 20, 20]
    assert torch.cat([split.train, split.val, split.test]).sort().values.tolist() == list(range(100))


def test_too_many_labels_are_refused():
    with pytest.raises(SettingsError, match=r"labels_per_class must be at most 1 on toy, whose class 1 has no more"):
        few_of_each(torch.tensor([0, 0, 1]), 2, "toy", torch.Generator())


def test_a_corruption_that_is_none_is_one_sentence():
    with pytest.raises(SettingsError, match=r"^test_corrupt: a corruption is DROP,ADD or DROP,ADD,SEED.* got 'x'$"):
        settings(test_corrupt="x")


def test_two_choices_of_labels_contradict_each_other():
    with pytest.raises(SettingsError, match="labels_per_class and train_share contradict each other"):
        settings(labels_per_class=1, train_share=0.5)
    with pytest.raises(SettingsError, match="train_items and train_share contradict each other"):
        settings(train_items=5, train_share=0.5)


def test_folds_have_no_share_and_no_corrupted_test():
    pairs = load("far-pair")
    folded = type(pairs)(**{**vars(pairs), "splits": type("Folds", (), {"folds": 10, "fold": pairs.splits.split})()})
    plan = resolve("far-pair", "gcn", "none", train_share=0.5)
    with pytest.raises(SettingsError, match="far-pair is split into folds; train_share is for"):
        split_for(folded, plan, 0)
    with pytest.raises(SettingsError, match="far-pair is scored on the validation part of its folds"):
        train_run(folded, resolve("far-pair", "gcn", "none", test_corrupt="0,1"), 0, None)


def test_a_corrupted_test_leaves_training_and_validation_alone(papers, tmp_path):
    clean, same, noisy = (
        train_run(papers, settings(test_corrupt=text), 0, tmp_path / str(number))
        for number, text in enumerate(("", "0,0", "0.6,2"))
    )
    assert noisy["history"] == clean["history"]
    assert (same["test"], same["quality"]) == (clean["test"], clean["quality"])
    assert noisy["quality"] != clean["quality"]
    assert noisy["key"] != clean["key"]
    assert json.loads((tmp_path / "2" / "result.json").read_text())["test"] == noisy["test"]


def test_a_row_tells_who_makes_the_variance(papers, tmp_path):
    rows = {name: train_run(papers, settings(name), 0, tmp_path / name) for name in ("none", "rade-of", "rade-of-drop")}
    assert rows["none"]["variance"] == {}
    shares = rows["rade-of"]["variance"]
    assert 0 < shares["add"] < 1
    assert shares["drop"] + shares["add"] == pytest.approx(1)
    assert rows["rade-of-drop"]["variance"] == pytest.approx({"drop": 1.0, "add": 0.0})


def test_settings_that_came_later_leave_stored_keys_as_they_were(papers):
    plan = settings()
    dump = plan.model_dump(mode="json")
    later = ("test_corrupt", "labels_per_class", "train_items", "train_share")
    older = {name: value for name, value in dump.items() if name not in later}
    data = {"name": "csbm", "files": {}, "options": {}}
    keys = [key_of(values, all_options(plan), 0, data) for values in (dump, older, {**dump, "labels_per_class": 5})]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("stage", ["finished", "interrupted"])
def test_resuming_after_a_default_changed_is_refused(papers, tmp_path, monkeypatch, stage):
    """The settings are the same: a method's own default is none of them."""
    plan = settings("drop-edge").model_copy(update={"options": {}})
    if stage == "finished":
        train_run(papers, plan, 0, tmp_path)
    else:
        with pytest.raises(Interrupted):
            train_run(papers, plan, 0, tmp_path, keeping=Keeping(stop_asked=lambda: True))
    monkeypatch.setitem(METHODS, "drop-edge", replace(METHODS["drop-edge"], value=DropEdge(rate=0.25)))
    with pytest.raises(RunError, match="has these settings, but was made from other data, with other defaults"):
        train_run(papers, plan, 0, tmp_path, resume=True)


def test_calibration_by_hand():
    """Four rows sure at 0.9 of which three are right, two rows at 0.6 of which both are: (4·0.15 + 2·0.4)/6."""
    sure, fair = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.6, 0.4]).log()
    logits = torch.stack([sure] * 4 + [fair] * 2)
    labels = torch.tensor([0, 0, 0, 1, 0, 0])
    assert calibration_error(logits, labels) == pytest.approx((4 * 0.15 + 2 * 0.4) / 6)


def test_calibration_of_labels_that_are_yes_or_no_leaves_unknown_ones_out():
    logits = torch.tensor([[2.0, 0.0], [-2.0, 5.0]])
    labels = torch.tensor([[1.0, float("nan")], [0.0, float("nan")]])
    assert calibration_error(logits, labels) == pytest.approx(1 - torch.tensor(2.0).sigmoid().item())


def test_what_is_not_finite_is_no_number(papers):
    bad, good = ((torch.tensor([[value, 0.0]]), torch.tensor([0])) for value in (float("inf"), 1.0))
    assert set(quality(Task.of(papers), bad, bad).values()) == {None}
    assert [name for name, value in quality(Task.of(papers), bad, good).items() if value] == ["temperature"]
    found = quality(Task.of(papers), good, bad)
    assert found["log_loss"] is not None
    assert found["temperature"] is found["scaled_log_loss"] is None


def test_a_temperature_takes_back_what_logits_were_scaled_by(papers):
    """The loss is then the same whatever the scale was, and no larger than without."""
    task, generator = Task.of(papers), torch.Generator().manual_seed(0)
    logits = torch.randn(200, 3, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).view(-1)
    plain, loud = (quality(task, (s * logits, labels), (s * logits, labels)) for s in (1.0, 5.0))
    assert loud["temperature"] == pytest.approx(5 * plain["temperature"], rel=1e-3)
    assert loud["scaled_log_loss"] == pytest.approx(plain["scaled_log_loss"], rel=1e-4)
    assert plain["temperature"] == pytest.approx(1.0, abs=0.3)  # 200 rows: about 3 standard errors, at a fixed seed
    assert loud["scaled_log_loss"] < loud["log_loss"]
    assert loud["scaled_calibration_error"] < loud["calibration_error"]
