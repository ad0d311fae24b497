"""Trained models in use."""

import csv

import pytest
import torch
from torch.testing import assert_close

from rade.train import RunError, load_run, resolve, train_run
from rade.train.metrics import accuracy
from rade.train.predictions import decide, write_predictions


@pytest.mark.parametrize("method", ["none", "drop-message", "rade-of", "rade-ofs"])
def test_predictions_have_the_score_of_the_best_epoch(method, papers, tmp_path):
    result = train_run(papers, resolve("csbm", "gin", method, epochs=8, hidden=8), 0, tmp_path)
    logits = load_run(tmp_path).predict(papers)
    test = papers.split(0).test
    assert accuracy(logits[test], papers.graphs[0].y[test]) == result["test"]


@pytest.mark.parametrize("method", ["none", "rade-ofs"])
def test_predictions_for_graphs(method, paths, tmp_path):
    settings = resolve("far-pair", "gcn", method, epochs=2, hidden=8, batch_size=32)
    result = train_run(paths, settings, 0, tmp_path)
    logits = load_run(tmp_path).predict(paths)
    test = paths.split(0).test
    labels = torch.cat([paths.graphs[int(i)].y for i in test])
    assert accuracy(logits[test], labels) == result["test"]


def test_predictions_with_sampled_neighborhoods_cover_every_node(papers, tmp_path):
    settings = resolve("csbm", "gcn", "rade-ofs", epochs=2, hidden=8, batch_size=50, fanouts=(5, 5))
    train_run(papers, settings, 0, tmp_path)
    trained = load_run(tmp_path)
    assert trained.predict(papers).shape == (400, 5)
    assert_close(trained.predict(papers), trained.predict(papers), rtol=0, atol=0)


def test_a_model_refuses_other_data(papers, paths, tmp_path):
    train_run(papers, resolve("csbm", "gcn", "none", epochs=1, hidden=8), 0, tmp_path)
    with pytest.raises(
        RunError, match=r"trained on csbm \(level: node\) and cannot be used on far-pair \(level: graph\)"
    ):
        load_run(tmp_path).predict(paths)


def test_a_folder_without_a_model_is_a_sentence(tmp_path):
    with pytest.raises(RunError, match=r"there is no file .*model.pt; is this the folder of a finished run"):
        load_run(tmp_path)
    (tmp_path / "model.pt").write_bytes(b"nonsense")
    with pytest.raises(RunError, match=r"model.pt is damaged or not a file of rade"):
        load_run(tmp_path)


def test_the_table_of_predictions(papers, tmp_path):
    train_run(papers, resolve("csbm", "gcn", "none", epochs=2, hidden=8), 0, tmp_path)
    trained = load_run(tmp_path)
    logits = trained.predict(papers)
    assert write_predictions(tmp_path / "out.csv", logits, trained.shape) == 400
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [int(row["node"]) for row in rows] == list(range(400))
    assert [int(row["prediction"]) for row in rows] == logits.argmax(1).tolist()
    assert abs(sum(float(rows[0][f"probability_{c}"]) for c in range(5)) - 1) < 1e-5


def test_decisions_of_each_kind_of_task():
    logits = torch.tensor([[1.0, -1.0, 2.0]])
    assert decide(logits, "multiclass")[1] == ["2"]
    assert decide(logits, "multilabel")[1] == ["0 2"]
    assert decide(torch.tensor([[-1.0], [3.0]]), "binary")[1] == ["0", "1"]
