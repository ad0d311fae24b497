"""Any damage to checkpoints, models and results: noticed, or without effect."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.outcome import rade, small
from rade.train import Interrupted, resolve, train_run
from rade.train.run import Keeping

COMMAND = ("train", "--method", "rade-of", "--runs", "1", "--epochs", "4", "--hidden", "4")


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    """A finished run and one that stopped after two epochs."""
    folder = tmp_path_factory.mktemp("stored")
    settings = resolve("csbm", "gcn", "rade-of", epochs=4, hidden=4)
    train_run(small("csbm", None), settings, 0, folder / "done/rade-of/run-0")
    asked = iter([False, True])
    with pytest.raises(Interrupted):
        train_run(
            small("csbm", None),
            settings,
            0,
            folder / "open/rade-of/run-0",
            keeping=Keeping(stop_asked=lambda: next(asked)),
        )
    return folder


def history(folder):
    return json.loads((folder / "rade-of/run-0/result.json").read_text())["history"]


@st.composite
def damage(draw):
    """A file that ends too early, or has another content."""
    kind = draw(st.sampled_from(["cut", "other"]))
    place, content = draw(st.floats(0, 1)), draw(st.binary(min_size=1, max_size=20))

    def change(original: bytes) -> bytes:
        at = min(int(place * len(original)), len(original) - 1)
        return {"cut": original[:at], "other": content}[kind]

    return change


@given(change=damage())
def test_damaged_checkpoints_are_noticed_or_harmless(change, stored):
    folder = _copy(stored / "open")
    path = folder / "rade-of/run-0/checkpoint.pt"
    path.write_bytes(change(path.read_bytes()))
    code, err = rade(*COMMAND, "--out", folder, "--resume")
    if code == 0:
        assert history(folder) == history(stored / "done")
    else:
        assert path.name in err


@given(change=damage())
def test_damaged_models_do_not_predict(change, stored):
    folder = _copy(stored / "done") / "rade-of/run-0"
    path = folder / "model.pt"
    damaged = change(path.read_bytes())
    if damaged != path.read_bytes():
        path.write_bytes(damaged)
        code, err = rade("predict", folder, "--dataset", "csbm", "--out", folder / "p.csv")
        assert code == 2
        assert "model.pt is damaged or not a file of rade" in err


def _copy(folder: Path) -> Path:
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return copy
