"""Whole runs: every kind of batches and who shares them, determinism, rate steps, resuming, predictions."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from rade.commands.predict import decide
from rade.data import FixedSplit
from rade.train import Interrupted, RunError, SettingsError, load_run, resolve, run, train_run
from rade.train import batches as batches_module
from rade.train.baselines import DropEdge
from rade.train.batches import batches_of
from rade.train.methods import METHODS
from rade.train.process import rank, world
from rade.train.run import Keeping
from rade.train.tasks import accuracy, problem_of

PLATEAU = {"optimizer": "adamw", "schedule": "plateau", "epochs": 60, "patience": 0}
RESUMED = [
    ("papers", "drop-message", {}),
    ("papers", "rade-of", {}),
    ("papers", "rade-ofs", {"batch_size": 30, "fanouts": (5, 5), "epochs": 3}),
    ("paths", "rade-ofs", {}),
    ("papers", "none", PLATEAU),
    ("papers", "dropout", {**PLATEAU, "optimizer": "adam", "schedule": "step"}),
]


def stopping_after(epochs):
    """A request to stop, made during the given epoch."""
    asked = iter([False] * (epochs - 1) + [True])
    return Keeping(stop_asked=lambda: next(asked))


def quick(method="none", **overrides):
    return resolve("csbm", "gcn", method, **({"epochs": 6, "hidden": 8} | overrides))


def quick_graphs(method="none", **overrides):
    small = {"epochs": 3, "hidden": 8, "layers": 2, "batch_size": 32}
    return resolve("far-pair", "gin", method, **(small | overrides))


@pytest.mark.parametrize(("data", "method", "more"), RESUMED)
def test_an_interrupted_run_resumes_to_the_same_numbers(data, method, more, request, tmp_path):
    dataset = request.getfixturevalue(data)
    settings = quick(method, **more) if data == "papers" else quick_graphs(method, **more)
    whole = train_run(dataset, settings, 0, tmp_path / "whole", keeping=Keeping(every=1))
    with pytest.raises(Interrupted, match=r"stopped after epoch \d+, state saved in .*checkpoint.pt"):
        train_run(dataset, settings, 0, tmp_path / "parts", keeping=stopping_after(settings.epochs - 1))
    parts = train_run(dataset, settings, 0, tmp_path / "parts", resume=True)
    one, other = (run.model_dump(exclude={"timing", "commit", "dirty"}) for run in (whole, parts))
    assert one == other
    one, other = (load_run(tmp_path / name).predict(dataset) for name in ("whole", "parts"))
    assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_resumed_process_goes_on_with_its_own_stream(rank, tmp_path, monkeypatch):
    """The state of a run has the stream of the first process, which has written it for all."""
    own = [torch.Generator().manual_seed(seed).get_state() for seed in range(2)]
    stream = torch.Generator().manual_seed(2)
    states = {"state_dict": lambda: {}, "load_state_dict": lambda state: stream.set_state(own[0])}
    trainee: Any = SimpleNamespace(learner=SimpleNamespace(generator=stream), **states)
    keeping = Keeping(checkpoint=tmp_path / "checkpoint.pt")
    monkeypatch.setattr(run, "collect", lambda value: own)
    keeping.save(trainee, {"key": ""})
    monkeypatch.setattr(run, "rank", lambda: rank)
    keeping.restore(trainee, {"key": ""})
    assert torch.equal(stream.get_state(), own[rank])


@pytest.mark.parametrize(("backbone", "method"), [("gcn", "rade-of"), ("gin", "drop-message"), ("gat", "rade-ofs")])
def test_molecules_with_missing_labels_train(method, backbone, molecules, tmp_path):
    """Atom encoder, mean pooling, several binary labels of which some are unknown; the rates adapt."""
    options = {"epochs": 2, "hidden": 8, "layers": 2, "batch_size": 32}
    result = train_run(molecules, resolve("peptides-func", backbone, method, **options), 0, tmp_path)
    assert 0 < result.val < 1
    assert len(set(result.history["p"])) == (2 if method.startswith("rade") else 1)
    assert load_run(tmp_path).predict(molecules).shape == (100, 3)


@pytest.mark.parametrize("state", ["result.json", "checkpoint.pt"])
def test_resuming_what_something_else_made_is_refused(state, papers, tmp_path, monkeypatch):
    """With other settings, or with equal ones where the method's own default has changed, which is none of them."""
    plan = quick("drop-edge").model_copy(update={"options": {}})
    if state == "result.json":
        train_run(papers, plan, 0, tmp_path)
    else:
        with pytest.raises(Interrupted):
            train_run(papers, plan, 0, tmp_path, keeping=stopping_after(2))
    with pytest.raises(RunError, match=rf"{state} was made with hidden = 8, not 16; repeat those settings"):
        train_run(papers, quick("drop-edge", hidden=16), 0, tmp_path, resume=True)
    monkeypatch.setitem(METHODS, "drop-edge", DropEdge(rate=0.25))
    with pytest.raises(RunError, match="has these settings, but was made from other data, by another number"):
        train_run(papers, plan, 0, tmp_path, resume=True)


def test_the_result_tells_how_it_was_made_and_a_finished_run_is_not_repeated(papers, tmp_path):
    result = train_run(papers, quick("rade-of"), 2, tmp_path)
    assert (result.seed, result.settings["options"]["p"], result.data.options["nodes"]) == (2, 0.5, 400)
    assert {"rade", "torch", "torch_geometric", "python"} <= set(result.versions)
    assert {len(curve) for curve in result.history.values()} == {result.epochs}
    # Curves of the train and test parts are kept where they cost no pass: here the validation rows are few.
    assert set(result.history) == {"loss", "val", "val_loss", "p", "q"}
    assert result.val == max(result.history["val"])
    assert result.best_epoch == 1 + result.history["val"].index(result.val)
    assert train_run(papers, quick("rade-of", threads=1), 2, tmp_path, resume=True) == result
    assert train_run(papers, quick("rade-of"), 2, tmp_path).timing != result.timing
    assert train_run(papers, quick("rade-of"), 1, tmp_path / "other").history["loss"] != result.history["loss"]


def test_early_stopping_counts_from_the_best_epoch(papers, tmp_path):
    result = train_run(papers, quick(epochs=200, patience=3, lr=0.05), 0, tmp_path)
    assert result.epochs == result.best_epoch + 3 < 200


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_data_set_without_a_part_is_a_sentence(part, papers, tmp_path):
    broken = replace(papers, splits=FixedSplit(replace(papers.split(0), **{part: torch.tensor([]).long()})))
    name = {"val": "validation"}.get(part, part)
    with pytest.raises(SettingsError, match=f"data set csbm has no {name} part in this split"):
        train_run(broken, quick(), 0, tmp_path)


@pytest.mark.parametrize("method", ["drop-message", "rade-ofs"])
def test_predictions_have_the_score_of_the_best_epoch(method, papers, paths, tmp_path):
    """Of nodes and of graphs; those by sampled neighborhoods repeat."""
    result = train_run(papers, resolve("csbm", "gin", method, epochs=8, hidden=8), 0, tmp_path)
    logits, test = load_run(tmp_path).predict(papers), papers.split(0).test
    assert accuracy(logits[test], papers.graphs[0].y[test]) == result.test
    result = train_run(paths, quick_graphs(method), 0, tmp_path / "graphs")
    logits, test = load_run(tmp_path / "graphs").predict(paths), paths.split(0).test
    assert accuracy(logits[test], torch.cat([paths.graphs[int(i)].y for i in test])) == result.test
    train_run(papers, quick(method, batch_size=50, fanouts=(5, 5)), 0, tmp_path)
    trained = load_run(tmp_path)
    assert trained.predict(papers).shape == (400, 5)
    assert_close(trained.predict(papers), trained.predict(papers), rtol=0, atol=0)
    with pytest.raises(RunError, match=r"trained on csbm \(level: node\) and cannot be used on far-pair"):
        trained.predict(paths)


def test_decisions_of_each_kind_of_task():
    assert decide(torch.tensor([[1.0, -1.0, 2.0]]), "multilabel")[1] == ["0 2"]
    assert decide(torch.tensor([[-0.5], [0.5]]), "binary")[1] == ["0", "1"]


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
