"""The commands as a user types them."""

import csv
import json
import shlex

import pytest

from rade.train.backbones import BACKBONES
from rade.train.methods import METHODS

QUICK = ("--epochs", 3, "--hidden", 8, "--runs", 2)
FOLDERS = ("csbm-gcn", "csbm-gcn-paper")


def test_train_compares_and_leaves_a_picture(rade, tmp_path):
    code, out, err = rade("train", *QUICK)
    assert (code, err) == (0, "")
    for word in ("none", "rade-of", "rade-ofs", "±", "runs/csbm-gcn/curves.png", "hidden 8", "epochs 3", "p 0.5"):
        assert word in out
    assert "corrupt" not in out  # and other settings without a value
    assert "against none  95 % interval" in out
    assert (tmp_path / "runs/csbm-gcn/curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "runs/csbm-gcn/summary.json").read_text())["reference"] == "none"
    assert not [path.name for path in tmp_path.rglob(".*")]  # no lock, nothing half-written


def test_json_is_one_document(rade):
    code, out, err = rade("train", *QUICK, "--method", "none,drop-edge", "--rate", 0.3, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert [(run["method"], run["seed"]) for run in document["runs"]] == [
        (method, seed) for method in ("none", "drop-edge") for seed in range(2)
    ]
    assert document["settings"][1]["options"] == {"rate": 0.3}
    gap, scores = document["differences"]["drop-edge"], document["scores"]
    assert gap["mean"] == pytest.approx(scores["drop-edge"]["mean"] - scores["none"]["mean"])
    assert gap["low"] <= gap["mean"] <= gap["high"]


def test_options_reach_the_settings(rade, tmp_path):
    (tmp_path / "file.toml").write_text('backbone = "gin"\nmethod = "rade-of"\nepochs = 9\np = 0.1\n')
    options = ("--config", "file.toml", "--epochs", 2, "--hidden", 4, "--layers", 3, "--lr", 0.1, "--rho", 0.2)
    more = ("--fixed-rates", "--set", "share_view=false", "--runs", 1, "--seed", 5, "--out", "here", "--json")
    code, out, _ = rade("train", *options, *more)
    assert code == 0
    (settings,) = json.loads(out)["settings"]
    assert settings["backbone"] == "gin"
    assert (settings["epochs"], settings["hidden"], settings["layers"], settings["lr"]) == (2, 4, 3, 0.1)
    options = settings["options"]
    assert (options["p"], options["rho"], options["adaptive"], options["share_view"]) == (0.1, 0.2, False, False)
    assert json.loads((tmp_path / "here/rade-of/run-0/result.json").read_text())["seed"] == 5


def test_each_protocol_trains_in_a_folder_of_its_own(rade, tmp_path):
    code, out, err = rade("train", *QUICK, "--method", "drop-node,rade-of,rade-of-fixed")
    assert (code, err) == (0, "")
    for words in ("projection True", "share_view False", "data_gradient clean", "results in runs/csbm-gcn\n"):
        assert words in out
    code, out, err = rade("train", *QUICK, "--protocol", "paper", "--method", "rade-of")
    assert (code, err) == (0, "")
    assert "projection False" in out
    assert rade("predict", "runs/csbm-gcn-paper/rade-of/run-0", "--dataset", "csbm", "--out", "p.csv")[0] == 0
    rows = [json.loads((tmp_path / f"runs/{name}/rade-of/run-0/result.json").read_text()) for name in FOLDERS]
    assert [row["protocol"] for row in rows] == ["released", "paper"]


def test_the_command_in_a_result_repeats_it(rade, tmp_path):
    """Run 1 alone, under the paper's protocol with other settings: same key, same numbers."""
    options = ("--protocol", "paper", "--method", "rade-of", "--p", 0.25, "--set", "moments=delta", "--threads", 1)
    assert rade("train", *QUICK, *options, "--layers", 3, "--out", "first")[0] == 0
    first = json.loads((tmp_path / "first/rade-of/run-1/result.json").read_text())
    program, *arguments = shlex.split(first["command"])
    assert program == "rade"
    assert rade(*arguments, "--out", "again")[0] == 0
    (path,) = (tmp_path / "again").rglob("result.json")
    again = json.loads(path.read_text())
    for name in ("key", "run", "seed", "val", "test", "history", "command"):
        assert again[name] == first[name]


def test_nothing_is_lost_unasked(rade, tmp_path):
    """Results of other settings and unfinished runs stay, unless told otherwise; repeating a run is no loss."""
    assert rade("train", *QUICK, "--method", "rade-of")[0] == 0
    folder = tmp_path / "runs/csbm-gcn/rade-of/run-0"
    before = (folder / "result.json").read_text()
    code, _, err = rade("train", *QUICK, "--method", "rade-of", "--p", 0.3)
    assert code == 2
    assert "choose another folder with --out, or replace the earlier results with --overwrite" in err
    assert (folder / "result.json").read_text() == before
    assert rade("train", *QUICK, "--method", "rade-of")[0] == 0
    assert rade("train", *QUICK, "--method", "rade-of", "--p", 0.3, "--overwrite")[0] == 0
    (folder / "result.json").rename(folder / "checkpoint.pt")
    code, _, err = rade("train", *QUICK, "--method", "rade-of")
    assert code == 2
    assert err.endswith("holds an unfinished run; --resume continues it, --overwrite starts it over\n")
    assert "contradict each other" in rade("train", *QUICK, "--resume", "--overwrite")[2]


def test_too_little_memory_is_the_machines_fault(rade):
    code, _, err = rade("train", "--method", "none", "--runs", 1, "--epochs", 1, "--hidden", 10**9)
    assert code == 3
    assert err == "error: there is not enough memory for this; a smaller --hidden or --batch-size needs less\n"


def test_predict_writes_a_table_and_overwrites_only_if_asked(rade, tmp_path):
    rade("train", *QUICK, "--method", "rade-ofs", "--out", "here")
    (tmp_path / "p.csv").write_text("mine")
    command = ("predict", "here/rade-ofs/run-0", "--dataset", "csbm", "--out", "p.csv")
    code, _, err = rade(*command)
    assert (code, err.count("\n")) == (2, 1)
    assert "p.csv exists already; --overwrite replaces it" in err
    assert (tmp_path / "p.csv").read_text() == "mine"
    assert rade(*command, "--overwrite") == (0, "1000 predictions for csbm in p.csv\n", "")
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == 1000
    assert set(rows[0]) == {"node", "prediction", *(f"probability_{c}" for c in range(4))}
    code, out, _ = rade("predict", "here/rade-ofs/run-0", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 1000)
    code, _, err = rade("predict", "here/rade-ofs/run-0", "--out", ".")
    assert (code, err) == (2, "error: . is a folder, and a file is to be written; add a file's name\n")


def test_help_names_everything_that_exists(rade):
    code, out, _ = rade("train", "--help")
    assert code == 0
    text = " ".join(out.replace("│", " ").split())
    for name in (*BACKBONES, *(method for method in METHODS if not method.startswith("rade-ofs-"))):
        assert name in text
    for option in ("--dataset", "--resume", "--config", "--fixed-rates", "Examples"):
        assert option in text


def test_without_a_command_there_is_help(rade):
    code, out, err = rade()
    assert (code, err) == (0, "")
    assert "train" in out
    assert "predict" in out


def test_version_and_exit_codes(rade):
    assert rade("--version")[1].startswith("rade 0.")
    text = " ".join(rade("--help")[1].split())
    for words in ("1 the run failed", "2 wrong input", "3 the machine refused", "130 Ctrl-C", "143 SIGTERM"):
        assert words in text
