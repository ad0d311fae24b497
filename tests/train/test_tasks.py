"""Scores against OGB's evaluator and scikit-learn; settings that choose labels, and splits that do not fit them."""

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import f1_score

from rade.data import StratifiedFolds
from rade.train import SettingsError, resolve, tasks
from rade.train.tasks import problem_of, split_for


@pytest.fixture(scope="module")
def known_in_part():
    """500 rows, 4 tasks, a tenth of the labels unknown; the last task has one class only."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(500, 4, generator=generator) < 0.3).float()
    labels[torch.rand(500, 4, generator=generator) < 0.1] = torch.nan
    labels[:, 3] = labels[:, 3].clamp(max=0)
    return torch.randn(500, 4, generator=generator) + labels.nan_to_num(), labels


@pytest.mark.parametrize(
    ("metric", "name", "key"), [("roc-auc", "ogbg-molhiv", "rocauc"), ("average-precision", "ogbg-molpcba", "ap")]
)
def test_ranking_scores_are_those_of_ogb(metric, name, key, known_in_part):
    evaluator = pytest.importorskip("ogb.graphproppred").Evaluator(name)
    evaluator.num_tasks = 4
    logits, labels = known_in_part
    expected = evaluator.eval({"y_true": labels.numpy(), "y_pred": logits.numpy()})[key]
    assert tasks.METRICS[metric](logits, labels) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="needs a task with positive and negative labels"):
        tasks.METRICS[metric](torch.zeros(3, 1), torch.zeros(3, 1))


def test_micro_f1(known_in_part):
    logits, labels = known_in_part
    known = ~torch.isnan(labels)
    expected = f1_score(labels[known].numpy(), (logits[known] > 0).numpy())
    assert tasks.micro_f1(logits, labels) == pytest.approx(expected)
    classes = labels[:, :2].nan_to_num().sum(1).long()
    assert tasks.micro_f1(logits, classes) == tasks.accuracy(logits, classes)


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
