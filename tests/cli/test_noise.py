"""Noise and corruption on the command line."""

import json
from dataclasses import replace

import pytest

from rade.data import load
from rade.errors import SettingsError
from rade.train import load_run, resolve
from rade.train.denoising import check_noise
from rade.train.stages import Corruption

QUICK = ("--epochs", 3, "--hidden", 8, "--runs", 1)


def test_noise_reaches_the_methods_that_know_it(rade):
    code, out, err = rade("train", *QUICK, "--method", "none,rade-of", "--noise", "0.1,0.0005", "--json")
    assert code == 0
    assert "note: rade-of undid noise in the graph and none did not: the difference is that of both" in err
    plain, of = json.loads(out)["settings"]
    assert plain["options"] == {}
    assert (of["options"]["noise_p"], of["options"]["noise_q"]) == (0.1, 0.0005)


def test_noise_is_found_before_training(rade):
    options = ("--method", "rade-of", "--corrupt", "0,1", "--noise", "auto", "--json")
    code, out, err = rade("train", "--epochs", 30, "--hidden", 16, "--runs", 1, *options)
    assert code == 0
    assert "noise: up to four models are trained first, one of them plainly" in err
    assert "changes the validation score of a training by" in err
    assert {"noise_p", "noise_q", "noise_trust"} <= json.loads(out)["settings"][0]["options"].keys()


def test_noise_is_found_where_single_edges_cannot_be_trusted(rade):
    """Tested on another graph than that of training: all edges are trusted alike, also in predictions."""
    options = ("--method", "rade-of-fixed", "--corrupt", "0,1", "--noise", "auto", "--set", "test_corrupt=0,1")
    code, _, err = rade("train", "--epochs", 2, "--hidden", 8, "--runs", 1, *options, "--out", "here")
    assert code == 0
    assert "changes the validation score" in err
    code, _, err = rade("predict", "here/rade-of-fixed/run-0", "--noise", "auto", "--out", "found.csv")
    assert code == 0
    assert "features" not in err


def test_edges_are_trusted_in_training_and_in_prediction(rade, tmp_path):
    options = ("--method", "rade-of", "--corrupt", "0,1", "--epochs", 12, "--hidden", 16, "--runs", 1)
    assert rade("train", *options, "--noise", "0,0.003,features", "--out", "told")[0] == 0
    assert rade("train", *options, "--noise", "0,0.003", "--out", "alike")[0] == 0
    files = (tmp_path / f"{name}/rade-of/run-0/result.json" for name in ("told", "alike"))
    told, alike = (json.loads(file.read_text()) for file in files)
    assert told["settings"]["options"]["noise_trust"] == "features"
    assert "noise_trust=features" in told["command"]
    assert told["key"] != alike["key"]
    assert told["history"]["loss"] != alike["history"]["loss"]
    # The model in the file knows its rates; the graph that it predicts on tells which edges to trust.
    trained, data = load_run(tmp_path / "told/rade-of/run-0"), Corruption.parse("0,1").of_dataset(load("csbm"))
    test = data.split(0).test
    right = (trained.predict(data).argmax(1) == data.graphs[0].y)[test]
    assert float(right.double().mean()) == pytest.approx(told["test"])
    assert rade("predict", "told/rade-of/run-0", "--corrupt", "0,1", "--noise", "0,0.003,features")[0] == 0


def test_predictions_are_on_the_graph_of_the_run(rade, tmp_path):
    """A run on a corrupted graph predicts on it; the noise it was told of may be more than another graph holds."""
    options = ("--method", "rade-of", "--corrupt", "0,2", "--noise", "0,0.012", "--epochs", 3, "--runs", 1)
    assert rade("train", *options, "--out", "here")[0] == 0
    assert rade("predict", "here/rade-of/run-0", "--out", "own.csv")[0] == 0
    assert rade("predict", "here/rade-of/run-0", "--corrupt", "0,2", "--out", "same.csv")[0] == 0
    assert (tmp_path / "own.csv").read_text() == (tmp_path / "same.csv").read_text()
    code, _, err = rade("predict", "here/rade-of/run-0", "--corrupt", "0,0", "--out", "clean.csv")
    assert code == 2
    assert "noise of p = 0 and q = 0.012 leaves no real edge" in err


@pytest.mark.parametrize("method", ["none", "rade-ofs"])
def test_prediction_undoes_noise(rade, tmp_path, method):
    assert rade("train", "--epochs", 20, "--hidden", 16, "--runs", 1, "--method", method)[0] == 0
    run = f"runs/csbm-gcn/{method}/run-0"
    for name, noise in (("plain", ()), ("zero", ("--noise", "0,0")), ("auto", ("--noise", "auto"))):
        code, _, err = rade("predict", run, "--corrupt", "0,2", "--out", f"{name}.csv", *noise)
        assert code == 0
        assert ("noise:" in err) == bool(noise)
    plain, zero = ((tmp_path / f"{name}.csv").read_text() for name in ("plain", "zero"))
    assert plain == zero


def test_many_graphs_have_no_edges_to_trust():
    one = load("csbm")
    many = replace(one, name="several", level="graph", graphs=[*one.graphs, *one.graphs])
    settings = resolve("csbm", "gcn", "rade-of", noise_q=0.001, noise_trust="features")
    with pytest.raises(SettingsError, match="trust in single edges needs a data set of one graph, not several"):
        check_noise(many, settings)
