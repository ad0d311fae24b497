"""What is there is replaced only by something finished; what was saved is taken only if it fits."""

import errno
import json
import os
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from rade.errors import EnvironmentFault
from rade.train import Interrupted, RunError, load_run, resolve, summarise, train_run
from rade.train import run as run_module
from rade.train.checkpoint import Keeping
from rade.train.compare import compare
from rade.train.files import load_tensors, save_tensors
from rade.train.lock import Locked, locked
from rade.train.summary import Summary, in_common


def settings(method="none", **overrides):
    return resolve("csbm", "gcn", method, **({"epochs": 4, "hidden": 8} | overrides))


def stopping_after(epochs):
    asked = iter([False] * (epochs - 1) + [True])
    return lambda: next(asked)


def scores(folder: Path):
    return json.loads((folder / "result.json").read_text())["history"]


def test_an_interrupted_repetition_leaves_the_result(papers, tmp_path):
    first = train_run(papers, settings(), 0, tmp_path)
    model = (tmp_path / "model.pt").read_bytes()
    with pytest.raises(Interrupted):
        train_run(papers, settings(), 0, tmp_path, keeping=Keeping(stop_asked=stopping_after(2)))
    assert scores(tmp_path) == first["history"]
    assert (tmp_path / "model.pt").read_bytes() == model


def test_an_interrupted_replacement_is_resumed_not_mistaken(papers, tmp_path):
    """A result of other settings stays until the new run is finished; resuming the new one ends it."""
    old, new = settings(), settings(epochs=5)
    train_run(papers, old, 0, tmp_path)
    with pytest.raises(Interrupted):
        train_run(papers, new, 0, tmp_path, keeping=Keeping(stop_asked=stopping_after(3)))
    assert len(scores(tmp_path)["val"]) == 4
    result = train_run(papers, new, 0, tmp_path, resume=True)
    whole = train_run(papers, new, 0, tmp_path / "whole")
    assert result["history"] == whole["history"] == scores(tmp_path)


@pytest.mark.parametrize("killed_at", ["save_model", "write_whole"])
def test_killed_between_the_files_the_run_is_still_unfinished(killed_at, papers, tmp_path, monkeypatch):
    """No checkpoint was due in four epochs: the last state is saved before the files are exchanged."""

    def killed(*arguments):
        raise KeyboardInterrupt

    old, new, folder = settings(), settings(hidden=4), tmp_path / "none/run-0"
    train_run(papers, old, 0, folder)
    monkeypatch.setattr(run_module, killed_at, killed)
    with pytest.raises(KeyboardInterrupt):
        train_run(papers, new, 0, folder)
    monkeypatch.undo()
    with pytest.raises(RunError, match="holds an unfinished run; --resume continues it"):
        compare(papers, [old], 1, tmp_path)
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
        train_run(papers, settings(), 0, tmp_path, keeping=Keeping(every=2))
    monkeypatch.undo()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    whole = train_run(papers, settings(), 0, tmp_path / "whole")
    assert train_run(papers, settings(), 0, tmp_path, resume=True)["history"] == whole["history"]


def test_orphans_of_killed_runs_go_with_the_next_start(papers, tmp_path):
    for name in ("none/run-0/.checkpoint.pt.12345678", "rade-of/run-3/.model.pt.1", ".summary.json.1", ".curves.png.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    compare(papers, [settings()], 1, tmp_path)
    assert not list(tmp_path.rglob(".*"))


def test_a_folder_in_use_is_refused_before_anything_is_touched(papers, tmp_path):
    compare(papers, [settings()], 1, tmp_path)
    before = scores(tmp_path / "none/run-0")
    with locked(tmp_path), pytest.raises(Locked, match="is in use by process"):
        compare(papers, [settings(epochs=2)], 1, tmp_path, existing="overwrite")
    assert scores(tmp_path / "none/run-0") == before


def summary(folder):
    rows = json.loads((folder / "summary.json").read_text())["summaries"]
    return {row["method"]: (len(row["scores"]), row["difference"] is not None) for row in rows}


def test_fewer_runs_or_methods_do_not_shrink_the_summary(papers, tmp_path):
    none, drop = settings(), settings("drop-edge")
    compare(papers, [none, drop], 3, tmp_path)
    assert summary(tmp_path) == {"none": (3, False), "drop-edge": (3, True)}
    asked = compare(papers, [drop], 2, tmp_path)
    assert [len(one.scores) for one in asked.summaries] == [2]
    assert summary(tmp_path) == {"none": (3, False), "drop-edge": (3, True)}
    compare(papers, [none], 4, tmp_path, existing="resume")
    assert summary(tmp_path) == {"none": (4, False), "drop-edge": (3, True)}


def test_a_single_run_joins_those_of_the_folder(papers, tmp_path):
    """`--run 3` after runs 0 and 1: all three are summarised, and differences pair equal runs, not equal places."""
    none, drop = settings(), settings("drop-edge")
    compare(papers, [none, drop], 2, tmp_path)
    compare(papers, [none], 1, tmp_path, first=3)
    assert summary(tmp_path) == {"none": (3, False), "drop-edge": (2, True)}
    compare(papers, [drop], 1, tmp_path, first=3)
    assert summary(tmp_path) == {"none": (3, False), "drop-edge": (3, True)}
    rows = json.loads((tmp_path / "summary.json").read_text())["summaries"]
    for run, *scores in zip((0, 1, 3), *(row["scores"] for row in rows)):
        files = [tmp_path / f"{name}/run-{run}/result.json" for name in ("none", "drop-edge")]
        assert scores == [json.loads(file.read_text())["test"] for file in files]


def test_differences_pair_runs_by_number():
    ours = Summary("a", "accuracy", (0.9, 0.7), "", 0.0, runs=(1, 3))
    theirs = Summary("b", "accuracy", (0.1, 0.8, 0.5), "", 0.0, runs=(0, 1, 3))
    mine, other = in_common(ours, theirs)
    assert mine.scores == (0.9, 0.7)
    assert other.scores == (0.8, 0.5)
    assert mine.runs == other.runs == (1, 3)


def test_the_summary_holds_no_runs_of_other_settings(papers, tmp_path):
    compare(papers, [settings(), settings("drop-edge")], 2, tmp_path)
    compare(papers, [settings(epochs=3)], 1, tmp_path, existing="overwrite")
    assert summary(tmp_path) == {"none": (1, False)}


def test_a_damaged_neighbor_does_not_stop_the_summary(papers, tmp_path):
    compare(papers, [settings(), settings("drop-edge")], 1, tmp_path)
    (tmp_path / "drop-edge/run-0/result.json").write_text("{")
    (tmp_path / "summary.json").write_text('{"summaries": [{"method": "../.."}, {"method": 3}]}')
    compare(papers, [settings()], 1, tmp_path)
    assert summary(tmp_path) == {"none": (1, False)}


WRONG = [None, 7, "x", [], {}, float("nan"), -1, True, {"a": 1}, [1, 2]]


@pytest.mark.parametrize(
    "path",
    [
        (), ("settings",), ("settings", "options"), ("settings", "method"), ("run",), ("metric",), ("folds",), ("val",),
        ("history",), ("history", "val"), ("history", "p"), ("timing",), ("timing", "seconds"), ("epochs",),
    ],
    ids=str,
)  # fmt: skip
def test_a_result_edited_by_hand_is_a_sentence_or_taken(path, papers, tmp_path):
    """Ten wrong values and no value in each place."""
    good = train_run(papers, settings(), 0, tmp_path)
    file = tmp_path / "result.json"
    for value in [*WRONG, "missing"]:
        file.write_text(json.dumps(_edited(good.model_dump(), path, value)))
        try:
            summarise([train_run(papers, settings(), 0, tmp_path, resume=True)])
        except RunError as error:
            assert "result.json" in str(error)  # noqa: PT017


def _edited(nest, path, value):
    if not path:
        return value
    edited = place = deepcopy(nest)
    for name in path[:-1]:
        place = place[name]
    if value == "missing":
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return edited


CHECKPOINT = [
    ("settings",), ("settings", "hidden"), ("settings", "options"), ("generators",), ("generators", 0), ("trainee",),
    ("trainee", "learner"), ("trainee", "optimizer"), ("trainee", "optimizer", "param_groups"),
    ("trainee", "optimizer", "param_groups", 0), ("trainee", "optimizer", "param_groups", 0, "lr"),
    ("trainee", "optimizer", "param_groups", 0, "betas"), ("trainee", "optimizer", "state"),
    ("trainee", "optimizer", "state", 0), ("trainee", "optimizer", "state", 0, "exp_avg"), ("trainee", "schedule"),
    ("trainee", "progress"), ("trainee", "progress", "epoch"), ("trainee", "progress", "best_epoch"),
    ("trainee", "progress", "best_val"), ("trainee", "progress", "best_state"), ("trainee", "progress", "seconds"),
]  # fmt: skip


@pytest.mark.parametrize("path", CHECKPOINT, ids=str)
def test_a_checkpoint_edited_by_hand_is_a_sentence_or_taken(path, papers, tmp_path):
    """Wrong values and no value in each place, with a checksum that fits: nothing else ends the run."""
    plan = settings("rade-of", epochs=3)
    with pytest.raises(Interrupted):
        train_run(papers, plan, 0, tmp_path, keeping=Keeping(stop_asked=stopping_after(2)))
    good = load_tensors(tmp_path / "checkpoint.pt")
    for value in [*WRONG, torch.zeros(3), "missing"]:
        save_tensors(tmp_path / "checkpoint.pt", _edited(good, path, value))
        try:
            train_run(papers, plan, 0, tmp_path, resume=True)
        except RunError as error:
            assert "checkpoint.pt" in str(error) or "became" in str(error)  # noqa: PT017
        (tmp_path / "result.json").unlink(missing_ok=True)


def test_every_flipped_bit_of_a_checkpoint_and_a_model_is_noticed(papers, tmp_path):
    """50 places in each."""
    with pytest.raises(Interrupted):
        train_run(papers, settings(), 0, tmp_path, keeping=Keeping(stop_asked=stopping_after(2)))
    train_run(papers, settings(), 0, tmp_path / "done")
    checkpoint, model = (tmp_path / "checkpoint.pt").read_bytes(), (tmp_path / "done/model.pt").read_bytes()
    for number in range(50):
        for content, file in ((checkpoint, tmp_path / "checkpoint.pt"), (model, tmp_path / "done/model.pt")):
            damaged = bytearray(content)
            damaged[number * len(content) // 50] ^= 1 << (number % 8)
            file.write_bytes(damaged)
        with pytest.raises(RunError, match=r"checkpoint.pt is damaged"):
            train_run(papers, settings(), 0, tmp_path, resume=True)
        with pytest.raises(RunError, match=r"model.pt is damaged"):
            load_run(tmp_path / "done")


def test_a_model_without_numbers_does_not_predict(papers, tmp_path):
    train_run(papers, settings(), 0, tmp_path)
    saved = load_tensors(tmp_path / "model.pt")
    weights = [name for name, value in saved["state"].items() if torch.is_tensor(value) and value.is_floating_point()]
    saved["state"][weights[0]].fill_(torch.nan)
    save_tensors(tmp_path / "model.pt", saved)
    with pytest.raises(RunError, match=r"model.pt holds weights that are not finite and cannot predict; train"):
        load_run(tmp_path)
