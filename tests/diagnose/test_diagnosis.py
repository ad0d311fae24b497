"""`rade diagnose` as a whole: data sets of both levels, runs, files, sentences."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rade.cli import main
from rade.data import load
from rade.diagnose import Effort, diagnose
from rade.diagnose.sample import sample
from rade.diagnose.sensitivity import by_distance, jacobian_norms
from rade.diagnose.subject import RatesAsked, untrained
from rade.train.settings import resolve

QUICK = ("--epochs", 1, "--anchors", 3, "--draws", 1, "--threads", 1)


@pytest.fixture
def rade(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


def subject_of(name, backbone="gcn", method="none", **options):
    torch.set_num_threads(1)
    return untrained(load(name, **options), resolve(name, backbone, method, hidden=8), RatesAsked(0.4, 1.0))


@pytest.mark.parametrize("backbone", ["gcn", "gin", "gat", "sage"])
def test_rade_of_is_the_clean_operator_and_rade_ofs_conducts_better(backbone):
    found = diagnose(subject_of("csbm", backbone, nodes=240), Effort(anchors=4, draws=1))
    clean, same, more = (found.operators[name] for name in ("clean", "rade-of", "rade-ofs"))
    assert same == clean
    assert more.resistance < clean.resistance
    assert more.beyond > clean.beyond == 0.0
    assert found.weights == ("aggregator" if backbone in ("gcn", "gin") else "sum")
    json.dumps(found.to_json(), allow_nan=False)


def test_without_additions_all_operators_agree():
    subject = subject_of("csbm", nodes=240)
    law = subject.law_on
    still = replace(subject, law_on=lambda graph: law(graph).at(replace(law(graph).rates, q=0.0)))
    found = diagnose(still, Effort(anchors=3, draws=1))
    clean, more = found.operators["clean"], found.operators["rade-ofs"]
    assert more.resistance == pytest.approx(clean.resistance)
    assert [step.sensitivity for step in more.steps] == pytest.approx([step.sensitivity for step in clean.steps])
    assert more.flips == clean.flips


def test_a_data_set_of_graphs(rade):
    code, out, _ = rade("diagnose", "far-pair", *QUICK, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["graphs"] == 128
    assert any("graphs, drawn at random" in note for note in found["notes"])
    assert found["operators"]["rade-ofs"]["gap"] > found["operators"]["clean"]["gap"] > 0


def test_a_run_is_measured_at_its_own_rates_and_kept(rade):
    rade("train", "--dataset", "csbm", "--method", "rade-ofs", "--runs", 1, "--epochs", 2, "--hidden", 4, "--out", "r",
         "--fixed-rates", "--p", 0.25)  # fmt: skip
    code, out, err = rade("diagnose", "r/rade-ofs/run-0", *QUICK, "--out", "store", "--picture", "p.svg")
    assert code == 0, err
    assert "p = 0.25" in out
    assert "rade-ofs, 2 layers, from r/rade-ofs/run-0" in out
    (kept,) = Path("store/studies/diagnoses").glob("csbm-*.json")
    assert json.loads(kept.read_text())["p"] == 0.25
    assert "<svg" in Path("p.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nosuch",), "nosuch"),
        (("runs/none",), "there is no folder runs/none; name a finished run of rade train, or a data set"),
        ((".",), "holds no model.pt; name the folder of one finished run"),
        (("csbm", "--backbone", "gnc"), "unknown backbone 'gnc'; did you mean 'gcn'"),
        (("csbm", "--p", 1.5), r"drop rate p must lie in [0, 1), got 1.5"),
        (("csbm", "--rho", -1), "rho = q/density must be a finite number of at least 0, got -1"),
        (("csbm", "--picture", "a.gif"), "--picture draws .png, .svg, .pdf, got a.gif"),
        (("csbm", "--anchors", 0), "anchors"),
    ],
)
def test_wrong_input_is_one_sentence(rade, arguments, sentence):
    code, out, err = rade("diagnose", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def test_effort_must_be_positive():
    with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
        Effort(draws=0)


def test_graphs_without_an_anchor_play_no_part():
    subject = subject_of("far-pair")
    found = diagnose(subject, Effort(anchors=2, draws=1))
    chosen = sample(subject.graph, 2, 8, torch.Generator().manual_seed(0))
    norms = jacobian_norms(subject.net, subject.x, subject.graph, chosen.anchors, torch.Generator().manual_seed(0))
    whole = by_distance(norms, chosen.distance, chosen.inside)
    steps = {step.distance: step.sensitivity for step in found.operators["clean"].steps}
    assert steps == pytest.approx({distance: mean for distance, (_, mean) in whole.items()})
