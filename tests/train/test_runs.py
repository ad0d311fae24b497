"""Whole runs: every kind of batches, determinism, resuming, damaged files, predictions."""

import csv
import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from rade.commands.predict import decide, table
from rade.data.splits import FixedSplit
from rade.errors import EnvironmentFault
from rade.train import Interrupted, RunError, SettingsError, load_run, resolve, train_run
from rade.train import run as run_module
from rade.train.folder import refuse_to_lose
from rade.train.record import RunRecord
from rade.train.run import Keeping
from rade.train.stages import problem_of
from rade.train.tasks import accuracy

COMPARED = ("none", "dropout", "drop-edge", "drop-node", "drop-message", "rade-of", "rade-ofs")
SAMPLED = {"batch_size": 30, "fanouts": (5, 5), "epochs": 3}
PLATEAU = {"optimizer": "adamw", "schedule": "plateau", "epochs": 60, "patience": 0}
RESUMED = [
    *(("papers", method, {}) for method in COMPARED),
    *((data, method, more) for data, more in (("paths", {}), ("papers", SAMPLED)) for method in ("none", "rade-ofs")),
    ("papers", "none", PLATEAU),
    ("papers", "none", {**PLATEAU, "optimizer": "adam", "schedule": "step"}),
]


def same(result):
    """A result without what may differ between two runs: the times, and the commit, which an edit changes."""
    return result.model_dump(exclude={"timing", "commit", "dirty"})


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
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["model.pt", "result.json"]
    with pytest.raises(Interrupted, match=r"stopped after epoch \d+, state saved in .*checkpoint.pt"):
        train_run(dataset, settings, 0, tmp_path / "parts", keeping=stopping_after(settings.epochs - 1))
    parts = train_run(dataset, settings, 0, tmp_path / "parts", resume=True)
    assert same(parts) == same(whole)
    assert not (tmp_path / "parts" / "checkpoint.pt").exists()
    one, other = (load_run(tmp_path / name).predict(dataset) for name in ("whole", "parts"))
    assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("backbone", ["gcn", "gin", "gat"])
@pytest.mark.parametrize("method", ["none", "drop-message", "rade-of", "rade-ofs"])
def test_molecules_with_missing_labels_train(method, backbone, molecules, tmp_path):
    """Atom encoder, mean pooling, several binary labels of which some are unknown; the rates adapt."""
    options = {"epochs": 2, "hidden": 8, "layers": 2, "batch_size": 32}
    result = train_run(molecules, resolve("peptides-func", backbone, method, **options), 0, tmp_path)
    assert 0 < result.val < 1
    assert len(set(result.history["p"])) == (2 if method.startswith("rade") else 1)
    assert load_run(tmp_path).predict(molecules).shape == (100, 3)


def test_a_finished_run_is_not_repeated(papers, tmp_path):
    first = train_run(papers, quick(), 0, tmp_path)
    assert train_run(papers, quick(threads=1), 0, tmp_path, resume=True).timing == first.timing
    assert train_run(papers, quick(), 0, tmp_path).timing != first.timing
    assert train_run(papers, quick(), 1, tmp_path / "other").history["loss"] != first.history["loss"]


def test_resuming_with_other_settings_is_refused(papers, tmp_path):
    train_run(papers, quick(), 0, tmp_path / "done")
    with pytest.raises(RunError, match=r"result.json was made with epochs = 6, not 9; repeat those settings"):
        train_run(papers, quick(epochs=9), 0, tmp_path / "done", resume=True)
    with pytest.raises(Interrupted):
        train_run(papers, quick(), 0, tmp_path / "open", keeping=stopping_after(2))
    with pytest.raises(RunError, match=r"checkpoint.pt was made with hidden = 8, not 16"):
        train_run(papers, quick(hidden=16), 0, tmp_path / "open", resume=True)


def test_a_checkpoint_cannot_run_code(papers, tmp_path):
    class Attack:
        def __reduce__(self):
            return (print, ("executed",))

    torch.save({"settings": Attack()}, tmp_path / "checkpoint.pt")
    with pytest.raises(RunError, match=r"damaged or not a file of rade"):
        train_run(papers, quick(), 0, tmp_path, resume=True)


def test_the_result_tells_how_it_was_made(papers, tmp_path):
    returned = train_run(papers, quick("rade-of"), 2, tmp_path)
    result = RunRecord.from_json((tmp_path / "result.json").read_bytes())
    assert result == returned
    assert result.seed == 2
    assert result.settings["options"]["p"] == 0.5
    assert {"rade", "torch", "torch_geometric", "python"} <= set(result.versions)
    assert result.data.options["nodes"] == 400
    assert {len(curve) for curve in result.history.values()} == {result.epochs}
    # Curves of the train and test parts are kept where they cost no pass: here the validation rows are few.
    assert set(result.history) == {"loss", "val", "val_loss", "p", "q"}
    assert result.val == max(result.history["val"])
    assert result.best_epoch == 1 + result.history["val"].index(result.val)


def test_early_stopping_counts_from_the_best_epoch(papers, tmp_path):
    result = train_run(papers, quick(epochs=200, patience=3, lr=0.05), 0, tmp_path)
    assert result.epochs == result.best_epoch + 3 < 200


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_data_set_without_a_part_is_a_sentence(part, papers, tmp_path):
    broken = replace(papers, splits=FixedSplit(replace(papers.split(0), **{part: torch.tensor([]).long()})))
    name = {"val": "validation"}.get(part, part)
    with pytest.raises(SettingsError, match=f"data set csbm has no {name} part in this split"):
        train_run(broken, quick(), 0, tmp_path)


@pytest.mark.parametrize("killed_at", ["save_model", "save_bytes"])
def test_killed_between_the_files_the_run_is_still_unfinished(killed_at, papers, tmp_path, monkeypatch):
    """No checkpoint was due: the last state is saved before files are exchanged, and what is there stays till then."""

    def killed(*arguments):
        raise KeyboardInterrupt

    old, new, folder = quick(), quick(hidden=4), tmp_path / "none/run-0"
    first = train_run(papers, old, 0, folder)
    monkeypatch.setattr(run_module, killed_at, killed)
    with pytest.raises(KeyboardInterrupt):
        train_run(papers, new, 0, folder)
    monkeypatch.undo()
    assert json.loads((folder / "result.json").read_text())["history"] == first.history
    with pytest.raises(RunError, match="holds an unfinished run; --resume continues it"):
        refuse_to_lose(tmp_path, old, range(1), problem_of(papers, old))
    train_run(papers, new, 0, folder, resume=True)
    assert load_run(folder).settings.hidden == 4
    assert json.loads((folder / "result.json").read_text())["settings"]["hidden"] == 4
    assert not (folder / "checkpoint.pt").exists()


@pytest.mark.parametrize("file", ["checkpoint.pt", "model.pt", "result.json"])
def test_a_disk_that_fills_up_is_a_sentence_and_nothing_is_left(file, papers, tmp_path, monkeypatch):
    """The disk is full for one of the files; once there is room the run goes on from its checkpoint."""
    real = os.replace

    def full(source, target):
        if Path(target).name == file:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EnvironmentFault, match="No space left on device"):
        train_run(papers, quick(), 0, tmp_path, keeping=Keeping(every=2))
    monkeypatch.undo()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    whole = train_run(papers, quick(), 0, tmp_path / "whole")
    assert train_run(papers, quick(), 0, tmp_path, resume=True).history == whole.history


@pytest.mark.parametrize("method", ["none", "drop-edge", "drop-message", "rade-of", "rade-ofs"])
def test_predictions_have_the_score_of_the_best_epoch(method, papers, tmp_path):
    result = train_run(papers, resolve("csbm", "gin", method, epochs=8, hidden=8), 0, tmp_path)
    trained, test = load_run(tmp_path), papers.split(0).test
    logits = trained.predict(papers)
    assert accuracy(logits[test], papers.graphs[0].y[test]) == result.test
    rows = list(csv.DictReader(table(logits, "multiclass", "node").splitlines()))
    assert [int(row["prediction"]) for row in rows] == logits.argmax(1).tolist()


def test_predictions_for_graphs_and_by_sampled_neighborhoods(papers, paths, tmp_path):
    result = train_run(paths, quick_graphs("rade-ofs"), 0, tmp_path / "graphs")
    logits, test = load_run(tmp_path / "graphs").predict(paths), paths.split(0).test
    assert accuracy(logits[test], torch.cat([paths.graphs[int(i)].y for i in test])) == result.test
    train_run(papers, quick("rade-ofs", batch_size=50, fanouts=(5, 5)), 0, tmp_path)
    trained = load_run(tmp_path)
    assert trained.predict(papers).shape == (400, 5)
    assert_close(trained.predict(papers), trained.predict(papers), rtol=0, atol=0)
    with pytest.raises(RunError, match=r"trained on csbm \(level: node\) and cannot be used on far-pair"):
        trained.predict(paths)


@pytest.mark.parametrize(
    ("loss", "logits", "decisions"),
    [
        ("multiclass", [[1.0, -1.0, 2.0]], ["2"]),
        ("multilabel", [[1.0, -1.0, 2.0]], ["0 2"]),
        ("binary", [[-1.0], [3.0]], ["0", "1"]),
    ],
)
def test_decisions_of_each_kind_of_task(loss, logits, decisions):
    assert decide(torch.tensor(logits), loss)[1] == decisions
