"""Settings that choose labels or corrupt edges, and what follows for a run and its key."""

from dataclasses import replace

import pytest
import torch

import rade
from rade.data import StratifiedFolds, load
from rade.train import SettingsError, resolve, train_run
from rade.train.stages import Corruption, problem_of, split_for


def settings(method="none", **asked):
    return resolve("csbm", "gcn", method, **{"epochs": 4, "hidden": 8, "threads": 1, **asked})


@pytest.mark.parametrize("asked", [{"labels_per_class": 3}, {"train_items": 9}, {"train_share": 0.5}], ids=str)
def test_labels_are_chosen_by_the_seed(papers, asked):
    split, y = papers.split(0), papers.graphs[0].y
    found, again, other = (split_for(papers, settings(**asked, seed=seed), 0) for seed in (0, 0, 1))
    assert torch.equal(found.train, again.train)
    assert not torch.equal(found.train, other.train)
    parts = [len(part) for part in vars(found).values()]
    if "train_share" in asked:
        items = torch.cat(list(vars(found).values()))
        assert (parts[0], len(items.unique())) == (len(items) // 2, len(items))
        return
    assert parts[0] == (9 if "train_items" in asked else 3 * papers.classes)
    assert "train_items" in asked or torch.bincount(y[found.train]).tolist() == [3] * papers.classes
    assert torch.isin(found.train, split.train).all()
    assert torch.equal(found.test, split.test)
    assert torch.equal(found.val, split.val)


@pytest.mark.parametrize(
    ("asked", "run", "sentence"),
    [
        ({"train_share": 0.5}, 0, "far-pair is split into folds; train_share is for"),
        ({}, 10, "data set far-pair has 10 folds; ask for at most as many runs"),
        ({"test_corrupt": "0,1"}, 0, "a corrupted test needs a data set of one graph, not far-pair"),
    ],
)
def test_folds_have_no_share_and_no_corrupted_test(asked, run, sentence, paths):
    folded = replace(paths, splits=StratifiedFolds(torch.arange(100) % 2))
    with pytest.raises(SettingsError, match=sentence):
        problem_of(folded, resolve("far-pair", "gcn", "none", **asked)).split(run)


def test_a_corrupted_test_leaves_training_and_validation_alone(papers, tmp_path):
    clean, same, noisy = (
        train_run(papers, settings(test_corrupt=text), 0, tmp_path / str(number))
        for number, text in enumerate(("", "0,0", "0.6,2"))
    )
    assert noisy.history == clean.history
    assert (same.test, same.quality) == (clean.test, clean.quality)
    assert noisy.quality != clean.quality
    assert noisy.key != clean.key


def test_a_corrupted_data_set_says_so_and_leaves_the_clean_one_alone():
    """As many edges as asked for, within five standard errors: false alarm once in 10^6 at a fresh seed."""
    dataset = load("csbm")
    edges = dataset.graphs[0].edge_index.clone()
    one, same, other = (Corruption(drop=0.2, add=1.0, seed=seed).of_dataset(dataset) for seed in (1, 1, 2))
    assert one.provenance.options["corrupted"] == {"drop": 0.2, "add": 1.0, "seed": 1}
    assert one.density == pytest.approx(min(1.8 * dataset.density, 1.0))
    assert torch.equal(dataset.graphs[0].edge_index, edges)
    assert torch.equal(one.graphs[0].edge_index, same.graphs[0].edge_index)
    found, others = one.graphs[0].edge_index, other.graphs[0].edge_index
    assert found.shape != others.shape or not torch.equal(found, others)
    rade.Graph.from_edge_index(found, dataset.graphs[0].num_nodes)  # symmetric and without repetition
    before, after = (set(map(tuple, graph.t().tolist())) for graph in (edges, found))
    spread = 5 * len(before) ** 0.5
    assert abs(len(before & after) - 0.8 * len(before)) < spread
    assert abs(len(after - before) - len(before)) < 2 * spread
    assert Corruption().of_dataset(dataset) is dataset
    with pytest.raises(SettingsError, match="a corruption needs a data set of one graph, not far-pair"):
        Corruption(add=1.0).of_dataset(load("far-pair"))
