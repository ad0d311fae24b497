"""Noise and corruption on the command line."""

import json

import pytest

QUICK = ("--epochs", 3, "--hidden", 8, "--runs", 1)


def test_noise_reaches_the_methods_that_know_it(rade):
    code, out, err = rade("train", *QUICK, "--method", "none,rade-of", "--noise", "0.1,0.0005", "--json")
    assert (code, err) == (0, "")
    plain, of = json.loads(out)["settings"]
    assert plain["options"] == {}
    assert (of["options"]["noise_p"], of["options"]["noise_q"]) == (0.1, 0.0005)


def test_a_corrupted_graph_is_another_setting(rade, tmp_path):
    code, out, _ = rade("train", *QUICK, "--method", "none", "--corrupt", "0.2,1,5", "--out", "here")
    assert code == 0
    assert "corrupt 0.2,1,5" in out
    stored = json.loads((tmp_path / "here/none/run-0/result.json").read_text())
    assert stored["data"]["options"]["corrupted"] == {"drop": 0.2, "add": 1.0, "seed": 5}
    code, _, err = rade("train", *QUICK, "--method", "none", "--corrupt", "0.2,2,5", "--out", "here", "--resume")
    assert code == 2
    assert "corrupt = '0.2,1,5'" in err


def test_noise_is_found_before_training(rade):
    options = ("--method", "rade-of", "--corrupt", "0,1", "--noise", "auto", "--json")
    code, out, err = rade("train", "--epochs", 30, "--hidden", 16, "--runs", 1, *options)
    assert code == 0
    assert "noise by a plain model:" in err
    assert {"noise_p", "noise_q"} <= json.loads(out)["settings"][0]["options"].keys()


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
    assert (tmp_path / "auto.csv").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--noise", "1"), "noise is P,Q, the rates of missing and of spurious edges"),
        (("--noise", "0,2"), "noise is P,Q"),
        (("--noise", "0,0.5"), "leaves no real edge: p + q must be smaller than 1, and q smaller than the density"),
        (("--corrupt", "2,1"), "dropped edges must lie in [0, 1), got 2"),
        (("--corrupt", "x"), "a corruption is DROP,ADD or DROP,ADD,SEED"),
        (("--noise", "0,0.001", "--method", "none"), "noise_p is no option of none"),
    ],
)
def test_bad_noise_is_a_sentence(rade, options, sentence):
    code, _, err = rade("train", "--epochs", 1, "--method", "rade-of", *options)
    if "none" in options:
        code, _, err = rade("train", "--epochs", 1, *options)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
