"""Noise and corruption on the command line."""

import json
from pathlib import Path

import pytest

from rade.data import load
from rade.train import load_run
from rade.train.stages import Corruption


@pytest.fixture
def train(rade):
    """Train one run in `runs/csbm-gcn`; returns its content and what was said of it."""

    def call(method, *options):
        quick = ("--epochs", 3, "--hidden", 8, "--runs", 1)
        code, _, err = rade("train", "--method", method, *quick, "--overwrite", *options)
        assert code == 0, err
        return json.loads(Path("runs/csbm-gcn", method.split(",")[-1], "run-0/result.json").read_text()), err

    return call


def test_noise_reaches_the_methods_that_know_it(train):
    noisy, err = train("none,rade-of", "--noise", "0.1,0.0005")
    assert "note: rade-of undid noise in the graph and none did not: the difference is that of both" in err
    plain = json.loads(Path("runs/csbm-gcn/none/run-0/result.json").read_text())["settings"]["options"]
    assert plain == {}
    assert noisy["settings"]["options"].items() >= {"noise_p": 0.1, "noise_q": 0.0005}.items()


def test_edges_are_trusted_in_training_and_in_prediction(train, rade):
    options = ("--corrupt", "0,1", "--epochs", 12, "--hidden", 16)
    alike, _ = train("rade-of", *options, "--noise", "0,0.003")
    told, _ = train("rade-of", *options, "--noise", "0,0.003,features")
    assert told["settings"]["options"]["noise_trust"] == "features"
    assert "noise_trust=features" in told["command"]
    assert told["key"] != alike["key"]
    assert told["history"]["loss"] != alike["history"]["loss"]
    # The model in the file knows its rates; the graph that it predicts on tells which edges to trust.
    trained, data = load_run("runs/csbm-gcn/rade-of/run-0"), Corruption.parse("0,1").of_dataset(load("csbm"))
    right = (trained.predict(data).argmax(1) == data.graphs[0].y)[data.split(0).test]
    assert float(right.double().mean()) == pytest.approx(told["test"])
    assert rade("predict", "runs/csbm-gcn/rade-of/run-0", "--corrupt", "0,1", "--noise", "0,0.003,features")[0] == 0
    code, _, err = rade("predict", "runs/csbm-gcn/rade-of/run-0", "--noise", "auto", "--out", "found.csv")
    assert (code, err[:7]) == (0, "noise: ")
    assert "of the observed edges spurious fits best" in err


def test_predictions_are_on_the_graph_of_the_run(train, rade):
    """A run on a corrupted graph predicts on it; the noise it was told of may be more than another graph holds."""
    train("rade-of", "--corrupt", "0,2", "--noise", "0,0.012")
    for name, options in (("own", ()), ("same", ("--corrupt", "0,2"))):
        assert rade("predict", "runs/csbm-gcn/rade-of/run-0", *options, "--out", f"{name}.csv")[0] == 0
    assert Path("own.csv").read_text() == Path("same.csv").read_text()
    code, _, err = rade("predict", "runs/csbm-gcn/rade-of/run-0", "--corrupt", "0,0", "--out", "clean.csv")
    assert code == 2
    assert "noise of p = 0 and q = 0.012 leaves no real edge" in err
