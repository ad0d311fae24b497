"""The commands as a user types them."""

import csv
import json
import shlex

from tests.report.synthetic import row

from rade.commands.demo import QUESTIONS
from rade.commands.train import notes_of
from rade.train.backbones import BACKBONES
from rade.train.methods import METHODS
from rade.train.record import RunRecord

TITLES = [question.title for question in QUESTIONS]
QUICK = ("--epochs", 3, "--hidden", 8, "--runs", 2)


def test_train_compares_and_leaves_a_picture(rade, tmp_path):
    code, out, err = rade("train", *QUICK)
    assert (code, err) == (0, "")
    for word in ("none", "rade-ofs", "±", "runs/csbm-gcn/curves.png", "hidden 8", "p 0.5", "projection True"):
        assert word in out
    assert "train_items" not in out  # and other settings without a value
    assert "against none  95 % interval" in out
    assert (tmp_path / "runs/csbm-gcn/curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "runs/csbm-gcn/summary.json").read_text())["reference"] == "none"
    assert not [path.name for path in tmp_path.rglob(".*")]  # no lock, nothing half-written


def test_options_reach_the_settings(rade, tmp_path):
    (tmp_path / "file.toml").write_text('backbone = "gin"\nmethod = "rade-of-fixed,"\nepochs = 9\np = 0.1\n')
    options = ("--config", "file.toml", "--epochs", 2, "--hidden", 4, "--set", "layers=3", "--lr", 0.1, "--rho", 0.2)
    more = ("--set", "share-view=False", "--runs", 1, "--seed", 5, "--out", "here", "--json")
    (settings,) = json.loads(rade("train", *options, *more)[1])["settings"]
    expected = {"backbone": "gin", "method": "rade-of-fixed", "epochs": 2, "hidden": 4, "layers": 3, "lr": 0.1}
    assert settings.items() >= expected.items()
    assert settings["options"].items() >= {"p": 0.1, "rho": 0.2, "share_view": False}.items()
    assert json.loads((tmp_path / "here/rade-of-fixed/run-0/result.json").read_text())["seed"] == 5


def test_the_command_in_a_result_repeats_it(rade, tmp_path):
    """Run 1 alone, under the paper's protocol, in its own folder, with other settings: same key, same numbers."""
    options = ("--protocol", "paper", "--method", "rade-of", "--p", 0.25, "--set", "moments=delta", "--threads", 1)
    assert rade("train", *QUICK, *options, "--layers", 3)[0] == 0
    first = json.loads((tmp_path / "runs/csbm-gcn-paper/rade-of/run-1/result.json").read_text())
    program, *arguments = shlex.split(first["command"])
    assert (program, first["protocol"]) == ("rade", "paper")
    assert rade(*arguments, "--out", "again")[0] == 0
    (path,) = (tmp_path / "again").rglob("result.json")
    again = json.loads(path.read_text())
    for name in ("key", "run", "seed", "val", "test", "history", "command"):
        assert again[name] == first[name]


def test_nothing_is_lost_unasked(rade, tmp_path):
    """Results of other settings and unfinished runs stay, unless told otherwise; repeating a run is no loss."""
    command = ("train", *QUICK, "--method", "rade-of")
    assert rade(*command)[0] == 0
    folder = tmp_path / "runs/csbm-gcn/rade-of/run-0"
    before = (folder / "result.json").read_text()
    code, _, err = rade(*command, "--p", 0.3)
    assert code == 2
    assert "choose another folder with --out, or replace the earlier results with --overwrite" in err
    assert (folder / "result.json").read_text() == before
    assert rade(*command)[0] == 0
    assert rade(*command, "--p", 0.3, "--overwrite")[0] == 0
    (folder / "result.json").rename(folder / "checkpoint.pt")
    code, _, err = rade(*command)
    assert code == 2
    assert err.endswith("holds an unfinished run; --resume continues it, --overwrite starts it over\n")


def test_predict_writes_a_table_and_overwrites_only_if_asked(rade, tmp_path):
    rade("train", *QUICK, "--method", "rade-ofs", "--out", "here")
    (tmp_path / "p.csv").write_text("mine")
    command = ("predict", "here/rade-ofs/run-0", "--dataset", "csbm", "--out", "p.csv")
    code, _, err = rade(*command)
    assert (code, err) == (2, "error: p.csv exists already; --overwrite replaces it, or name another file with --out\n")
    assert (tmp_path / "p.csv").read_text() == "mine"
    assert rade(*command, "--overwrite") == (0, "1000 predictions for csbm in p.csv\n", "")
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == 1000
    assert set(rows[0]) == {"node", "prediction", *(f"probability_{c}" for c in range(4))}
    for one in rows:
        assert float(one[f"probability_{one['prediction']}"]) == max(map(float, list(one.values())[2:]))
    assert json.loads(rade("predict", "here/rade-ofs/run-0", "--json")[1])["rows"] == 1000
    code, _, err = rade("predict", "here/rade-ofs/run-0", "--out", ".")
    assert (code, err) == (2, "error: . is a folder, and a file is to be written; add a file's name\n")


def test_help_names_everything_that_exists(rade):
    """Also without a command."""
    code, out, _ = rade("train", "--help")
    text = " ".join(out.replace("│", " ").split())
    methods = [method for method in METHODS if not method.startswith("rade-ofs-")]
    for name in (*BACKBONES, *methods, "--dataset", "--resume", "--config", "Examples"):
        assert (code, name in text) == (0, True)
    text = " ".join(rade()[1].split())
    for words in ("predict", "1 the run failed", "2 wrong input", "3 the machine refused", "130 Ctrl-C", "143 SIGTERM"):
        assert words in text
    assert rade("--version")[1].startswith("rade 0.")


def test_a_rate_that_fell_to_zero_and_rate_steps_that_were_left_out_are_told():
    def record(p, run=0, **more):
        curves = {"val": [0.5, 0.5], "p": p, "q": [p[0], p[0]]}
        return RunRecord.model_validate(row(0.5, run, done=2, history=curves) | more)

    runs = {"none": [record([0.0, 0.0])], "rade-of": [record([0.5, 0.0]), record([0.5, 0.4], 1, skipped=2)]}
    skipped, fell = notes_of(runs)
    assert skipped.startswith("warning: rade-of run 1: 2 rate steps were not finite and were left out")
    assert fell.startswith("note: rade-of: p fell to 0 in 1 of 2 runs: the noise's gradient stayed above the data's")


def test_demo_ends_with_a_table_a_sentence_for_each_difference_and_a_picture(rade, tmp_path):
    """For people with two seeds, for machines with a single one."""
    code, out, err = rade("demo", "--seeds", 2, "--epochs", 1, "--workers", 1, "--out", "here")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert list(dict.fromkeys(line.split(":")[0] for line in lines[-12:-2])) == TITLES
    assert "10 differences, judged together" in lines[-2]
    assert "picture: here/demo.png" in lines[-1]
    assert (tmp_path / "here/demo.png").read_bytes().startswith(b"\x89PNG")
    scores = json.loads((tmp_path / "here/demo.json").read_text())["scores"]
    assert list(scores) == TITLES
    for question in QUESTIONS:
        rows = scores[question.title]
        assert {question.reference, *question.aside} < set(rows)
        assert all(len(values) == 2 and 0 <= min(values) <= max(values) <= 1 for values in rows.values())
    code, out, err = rade("demo", "--seeds", 1, "--epochs", 1, "--workers", 1, "--json")
    assert (code, err, json.loads(out)["metric"]) == (0, "", "accuracy")


def test_only_what_keeps_the_additions_reaches_five_hops_with_two_layers():
    """Every part has as many rings of each class, so the others are at chance."""
    found = QUESTIONS[1].answer(seed=0, epochs=60)
    two = {row: score for row, score in found.items() if "2 layers" in row}
    assert two == {"plain (2 layers)": 0.2, "RADE-OF (2 layers)": 0.2, "RADE-OFS (2 layers)": 1.0}


def test_ctrl_c_ends_the_demo_with_a_line(rade, monkeypatch):
    def interrupted(*asked: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rade.commands.demo._ask", interrupted)
    code, _, err = rade("demo", "--workers", 1)
    assert (code, err) == (130, "interrupted: nothing was drawn; call again to start anew\n")
