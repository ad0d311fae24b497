"""The loop itself: how often the network runs, what is looked at, how batches are shared."""

from collections import Counter
from functools import wraps

import pytest
import torch
from torch.testing import assert_close

from rade.train import resolve, train_run
from rade.train.batches import batches_of
from rade.train.learner import BackboneLearner
from rade.train.process import Solo
from rade.train.run import Keeping
from rade.train.stages import problem_of


class Part(Solo):
    """One of several imagined processes."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def part(self, items):
        return items[self.rank :: self.world]


def batches(dataset, settings, process=None):
    problem = problem_of(dataset, settings)
    return batches_of(problem, problem.split(0), settings, 0, process or Solo())


@pytest.fixture
def passes(monkeypatch):
    """Counts forward passes of the backbone, by training mode."""
    from rade.train.backbones import Backbone

    counts = Counter()
    forward = Backbone.forward

    @wraps(forward)
    def counting(self, *args, **kwargs):
        counts["train" if torch.is_grad_enabled() else "evaluation"] += 1
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Backbone, "forward", counting)
    return counts


def improvements(result: dict) -> int:
    """In how many epochs the validation score was better than ever before."""
    scores = result.history["val"]
    return sum(score > max(scores[:number], default=-1.0) for number, score in enumerate(scores))


def test_test_rows_are_computed_only_where_validation_improved(papers, passes, tmp_path):
    """A training and a validation pass per epoch; the test rows in another pass, or along with the validation rows.

    At the end the best parameters are judged once more, likewise in one pass or two.
    """
    result = train_run(papers, resolve("csbm", "gcn", "none", epochs=5, hidden=8), 0, tmp_path)
    assert passes["train"] == 5
    assert passes["evaluation"] in (5 + 1, 5 + improvements(result) + 2)


def test_rate_control_and_evaluation_share_the_clean_pass(papers, passes, tmp_path):
    """RADE-OF: a pass on the view and a clean one per epoch, which has the validation rows as well.

    Where few rows are labelled their gradients take a small pass of their own, and so do the test rows; at the end the
    best parameters are judged once more, in one pass or two.
    """
    result = train_run(papers, resolve("csbm", "gcn", "rade-of", epochs=5, hidden=8), 0, tmp_path)
    extra = improvements(result)
    assert sum(passes.values()) in {10 + few + rest for few in (0, 5) for rest in (1, extra + 2)}


def test_the_shared_pass_gives_the_scores_of_a_separate_one(papers, tmp_path, monkeypatch):
    settings = resolve("csbm", "gcn", "rade-of", epochs=5, hidden=8)
    shared = train_run(papers, settings, 0, tmp_path / "shared")
    adapt = BackboneLearner.adapt

    def keep_to_itself(*args, **kwargs):
        adapt(*args, **kwargs)

    monkeypatch.setattr(BackboneLearner, "adapt", keep_to_itself)
    separate = train_run(papers, settings, 0, tmp_path / "separate")
    assert shared.history["val"] == separate.history["val"]


def test_rates_move_where_they_adapt(papers, tmp_path):
    adaptive = train_run(papers, resolve("csbm", "gcn", "rade-of", epochs=5, hidden=8), 0, tmp_path / "a")
    fixed = train_run(papers, resolve("csbm", "gcn", "rade-of-fixed", epochs=5, hidden=8), 0, tmp_path / "f")
    assert len(set(adaptive.history["p"])) == 5
    assert fixed.history["p"] == [0.5] * 5
    assert fixed.history["q"] == pytest.approx([0.5 * papers.density] * 5)


@pytest.mark.parametrize(("every", "steps"), [("batch", 3 * 4), ("epoch", 3)])
def test_rates_step_after_every_batch_or_every_epoch(every, steps, paths, tmp_path):
    """At Adam's step size far from balance, the way of p counts the steps."""
    settings = resolve("far-pair", "gcn", "rade-of", epochs=3, hidden=8, layers=2, adapt_every=every, rate_lr=1e-4)
    settings = settings.model_copy(update={"batch_size": -(-len(paths.split(0).train) // 4)})
    result = train_run(paths, settings, 0, tmp_path)
    assert abs(result.history["p"][-1] - 0.5) == pytest.approx(steps * 1e-4, rel=0.05)


@pytest.mark.parametrize("world", [2, 3, 7])
@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_processes_share_every_batch(kind, world, papers, paths):
    """The parts of a step together are the step of a single process, and the weights average to one."""
    dataset = papers if kind == "nodes" else paths
    settings = resolve(dataset.name, "gcn", "none", batch_size=17, fanouts=(4, 4), layers=2)
    whole = list(batches(dataset, settings).training(0))
    parts = [list(batches(dataset, settings, Part(rank, world)).training(0)) for rank in range(world)]
    assert {len(steps) for steps in parts} == {len(whole)}
    for step, *split in zip(whole, *parts):
        assert sum(part.weight for part in split) == pytest.approx(world)
        real = torch.cat([part.labels for part in split if part.weight > 0])
        assert_close(real.sort().values, step.labels.sort().values)
        for part in split:
            expected = len(part.labels) * world / len(step.labels)
            assert part.weight in (pytest.approx(expected), 0.0)


def test_an_epoch_is_shuffled_anew_and_repeats(paths):
    settings = resolve("far-pair", "gcn", "none", batch_size=16)
    found = batches(paths, settings)
    first, again, second = ([step.data.x for step in found.training(epoch)] for epoch in (0, 0, 1))
    assert all(torch.equal(one, other) for one, other in zip(first, again))
    assert not all(one.shape == other.shape and torch.equal(one, other) for one, other in zip(first, second))


def test_full_batch_training_cannot_be_shared(papers):
    with pytest.raises(ValueError, match="2 processes cannot share full-batch training; give a batch size"):
        batches(papers, resolve("csbm", "gcn", "none"), Part(0, 2))


def test_a_run_resumes_with_as_many_processes_as_wrote_it(paths, tmp_path):
    from rade.train import Interrupted, RunError

    settings = resolve("far-pair", "gcn", "none", epochs=3, hidden=8, batch_size=32)
    with pytest.raises(Interrupted):
        train_run(paths, settings, 0, tmp_path, keeping=Keeping(stop_asked=lambda: True))
    with pytest.raises(RunError, match=r"checkpoint.pt was written by 1 processes; resume with as many"):
        train_run(paths, settings, 0, tmp_path, resume=True, keeping=Keeping(process=Part(0, 2)))
