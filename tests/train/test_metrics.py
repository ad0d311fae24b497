"""Scores against OGB's evaluator, scikit-learn and hand counts."""

import pytest
import torch
from sklearn.metrics import f1_score

from rade.train.metrics import accuracy, average_precision, micro_f1, roc_auc


@pytest.fixture(scope="module")
def tasks():
    """500 rows, 4 tasks, a tenth of the labels unknown; the last task has one class only."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(500, 4, generator=generator) < 0.3).float()
    labels[torch.rand(500, 4, generator=generator) < 0.1] = torch.nan
    labels[:, 3] = labels[:, 3].clamp(max=0)
    return torch.randn(500, 4, generator=generator) + labels.nan_to_num(), labels


@pytest.mark.parametrize(
    ("metric", "name", "key"), [(roc_auc, "ogbg-molhiv", "rocauc"), (average_precision, "ogbg-molpcba", "ap")]
)
def test_ranking_scores_are_those_of_ogb(metric, name, key, tasks):
    evaluator = pytest.importorskip("ogb.graphproppred").Evaluator(name)
    evaluator.num_tasks = 4
    logits, labels = tasks
    expected = evaluator.eval({"y_true": labels.numpy(), "y_pred": logits.numpy()})[key]
    assert metric(logits, labels) == pytest.approx(expected, abs=1e-12)


def test_accuracy_by_hand():
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
    assert accuracy(logits, torch.tensor([0, 1, 1])) == pytest.approx(2 / 3)
    assert accuracy(torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [1.0]])) == 0.5


def test_micro_f1(tasks):
    logits, labels = tasks
    known = ~torch.isnan(labels)
    expected = f1_score(labels[known].numpy(), (logits[known] > 0).numpy())
    assert micro_f1(logits, labels) == pytest.approx(expected)
    classes = labels[:, :2].nan_to_num().sum(1).long()
    assert micro_f1(logits, classes) == accuracy(logits, classes)


def test_a_ranking_score_needs_both_classes():
    with pytest.raises(ValueError, match="needs a task with positive and negative labels"):
        roc_auc(torch.zeros(3, 1), torch.zeros(3, 1))
