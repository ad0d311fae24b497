"""Settings that choose labels or corrupt edges, and what follows for a run and its key."""

import json
from dataclasses import replace

import pytest
import torch

import rade
from rade.data import load
from rade.train import Interrupted, RunError, SettingsError, resolve, train_run
from rade.train.baselines import DropEdge
from rade.train.methods import METHODS
from rade.train.run import Keeping
from rade.train.stages import Corruption, few_of_each, split_for


@pytest.fixture(scope="module")
def papers():
    return load("csbm", nodes=300)


def settings(method="none", **asked):
    return resolve("csbm", "gcn", method, **{"epochs": 4, "hidden": 8, "threads": 1, **asked})


@pytest.mark.parametrize("asked", [{"labels_per_class": 5}, {"train_items": 9}], ids=str)
def test_fewer_labels_are_drawn_from_the_training_part_by_the_seed(papers, asked):
    split, y = papers.split(0), papers.graphs[0].y
    found, again, other = (split_for(papers, settings(**asked, seed=seed), 0) for seed in (0, 0, 1))
    assert len(found.train) == (9 if "train_items" in asked else 5 * papers.classes)
    assert "train_items" in asked or torch.bincount(y[found.train]).tolist() == [5] * papers.classes
    assert torch.isin(found.train, split.train).all()
    assert torch.equal(found.train, again.train)
    assert not torch.equal(found.train, other.train)
    assert torch.equal(found.test, split.test)
    assert torch.equal(found.val, split.val)


def test_too_many_labels_are_refused():
    with pytest.raises(SettingsError, match=r"labels_per_class must be at most 1 on toy, whose class 1 has no more"):
        few_of_each(torch.tensor([0, 0, 1]), 2, "toy", torch.Generator())


def test_folds_have_no_share_and_no_corrupted_test():
    pairs = load("far-pair")
    folded = type(pairs)(**{**vars(pairs), "splits": type("Folds", (), {"folds": 10, "split": pairs.splits.split})()})
    plan = resolve("far-pair", "gcn", "none", train_share=0.5)
    with pytest.raises(SettingsError, match="far-pair is split into folds; train_share is for"):
        split_for(folded, plan, 0)
    with pytest.raises(SettingsError, match="data set far-pair has 10 folds; ask for at most as many runs"):
        split_for(folded, resolve("far-pair", "gcn", "none"), 10)
    with pytest.raises(SettingsError, match="far-pair is scored on the validation part of its folds"):
        train_run(folded, resolve("far-pair", "gcn", "none", test_corrupt="0,1"), 0, None)


def test_a_corrupted_test_leaves_training_and_validation_alone(papers, tmp_path):
    clean, same, noisy = (
        train_run(papers, settings(test_corrupt=text), 0, tmp_path / str(number))
        for number, text in enumerate(("", "0,0", "0.6,2"))
    )
    assert noisy.history == clean.history
    assert (same.test, same.quality) == (clean.test, clean.quality)
    assert noisy.quality != clean.quality
    assert noisy.key != clean.key
    assert json.loads((tmp_path / "2" / "result.json").read_text())["test"] == noisy.test


def test_a_record_tells_who_makes_the_variance(papers, tmp_path):
    names = ("none", "drop-edge", "rade-of", "rade-of-drop")
    rows = {name: train_run(papers, settings(name), 0, tmp_path / name) for name in names}
    assert rows["none"].variance == {}
    assert rows["drop-edge"].variance == pytest.approx({"drop": 1.0, "add": 0.0})
    shares = rows["rade-of"].variance
    assert 0 < shares["add"] < 1
    assert shares["drop"] + shares["add"] == pytest.approx(1)
    assert rows["rade-of-drop"].variance == pytest.approx({"drop": 1.0, "add": 0.0})


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
    with pytest.raises(RunError, match="has these settings, but was made from other data, by another number"):
        train_run(papers, plan, 0, tmp_path, resume=True)


def test_corruptions_have_the_numbers_asked_for(papers):
    clean = rade.Graph.from_edge_index(papers.graphs[0].edge_index, 300)
    corruption = Corruption(drop=0.4, add=1.5, seed=3)
    noisy = corruption.of(clean)
    before, after = (set(map(tuple, graph.edge_index.t().tolist())) for graph in (clean, noisy))
    spread = 5 * (2 * clean.num_edges) ** 0.5  # five standard errors: false alarm once in 10^6
    assert abs(len(before & after) - 0.6 * len(before)) < spread
    assert abs(len(after - before) - 1.5 * len(before)) < 2 * spread


@pytest.mark.parametrize("name", ["csbm", "far-pair"])
def test_a_corrupted_data_set_says_so_and_leaves_the_clean_one_alone(name):
    dataset = load(name)
    edges = dataset.graphs[0].edge_index.clone()
    one, same, other = (Corruption(drop=0.2, add=1.0, seed=seed).of_dataset(dataset) for seed in (1, 1, 2))
    assert one.provenance.options["corrupted"] == {"drop": 0.2, "add": 1.0, "seed": 1}
    assert one.density == pytest.approx(min(1.8 * dataset.density, 1.0))
    assert torch.equal(dataset.graphs[0].edge_index, edges)
    assert torch.equal(one.graphs[0].edge_index, same.graphs[0].edge_index)
    found, others = one.graphs[0].edge_index, other.graphs[0].edge_index
    assert found.shape != others.shape or not torch.equal(found, others)
    for index in range(min(5, len(one.graphs))):  # nodes stay, edges stay inside, symmetric and without repetition
        rade.Graph.from_edge_index(one.graphs[index].edge_index, dataset.graphs[index].num_nodes)
    assert Corruption().of_dataset(dataset) is dataset
