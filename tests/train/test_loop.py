"""The loop itself: when rates step, how batches are shared."""

import pytest
import torch
from torch.testing import assert_close

from rade.train import batches as batches_module
from rade.train import resolve, train_run
from rade.train.batches import batches_of
from rade.train.process import rank, world
from rade.train.stages import problem_of


@pytest.fixture
def batches(monkeypatch):
    """The batches of one of several imagined processes."""

    def found(dataset, settings, rank=0, world=1):
        monkeypatch.setattr(batches_module, "rank", lambda: rank)
        monkeypatch.setattr(batches_module, "world", lambda: world)
        problem = problem_of(dataset, settings)
        return batches_of(problem, problem.split(0), settings, 0)

    return found


@pytest.mark.parametrize(("every", "steps"), [("batch", 3 * 4), ("epoch", 3)])
def test_rates_step_after_every_batch_or_every_epoch(every, steps, paths, tmp_path):
    """At Adam's step size far from balance, the way of p counts the steps."""
    settings = resolve("far-pair", "gcn", "rade-of", epochs=3, hidden=8, layers=2, adapt_every=every, rate_lr=1e-4)
    settings = settings.model_copy(update={"batch_size": -(-len(paths.split(0).train) // 4)})
    result = train_run(paths, settings, 0, tmp_path)
    assert abs(result.history["p"][-1] - 0.5) == pytest.approx(steps * 1e-4, rel=0.05)


@pytest.mark.parametrize("world", [2, 7])
@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_processes_share_every_batch(kind, world, papers, paths, batches):
    """The parts of a step together are the step of a single process, and the weights average to one."""
    dataset = papers if kind == "nodes" else paths
    settings = resolve(dataset.name, "gcn", "none", batch_size=17, fanouts=(4, 4), layers=2)
    whole = list(batches(dataset, settings).training(0))
    parts = [list(batches(dataset, settings, rank, world).training(0)) for rank in range(world)]
    assert {len(steps) for steps in parts} == {len(whole)}
    for step, *split in zip(whole, *parts):
        assert sum(part.weight for part in split) == pytest.approx(world)
        real = torch.cat([part.labels for part in split if part.weight > 0])
        assert_close(real.sort().values, step.labels.sort().values)
        for part in split:
            expected = len(part.labels) * world / len(step.labels)
            assert part.weight in (pytest.approx(expected), 0.0)


def test_full_batch_training_cannot_be_shared(papers, batches):
    with pytest.raises(ValueError, match="2 processes cannot share full-batch training; give a batch size"):
        batches(papers, resolve("csbm", "gcn", "none"), 0, 2)


def test_a_program_with_a_group_of_its_own_trains_alone(monkeypatch):
    """Batches are shared where `rade train` has joined torchrun's group, not in a script that calls `rade.compare`."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert (world(), rank()) == (1, 0)
