"""Settings that choose labels, and splits that do not fit them."""

from dataclasses import replace

import pytest
import torch

from rade.data import StratifiedFolds
from rade.train import SettingsError, resolve
from rade.train.problems import problem_of, split_for


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
    ],
)
def test_folds_are_as_many_as_there_are_and_have_no_share(asked, run, sentence, paths):
    folded = replace(paths, splits=StratifiedFolds(torch.arange(100) % 2))
    with pytest.raises(SettingsError, match=sentence):
        problem_of(folded, resolve("far-pair", "gcn", "none", **asked)).split(run)
