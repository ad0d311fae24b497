"""Scores against OGB's evaluator and scikit-learn."""

import pytest
import torch
from sklearn.metrics import f1_score

from rade.train import tasks


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
