"""The store and its text form: nothing torn, nothing lost, nothing twice, one writer, damage told; what a record is."""

import gzip
import json
import sqlite3
from contextlib import closing

import pytest
from pydantic import ValidationError
from tests.report.synthetic import row

from rade.errors import RunError, complaint
from rade.experiment.store import Store, export, open_store, records_below
from rade.train import resolve
from rade.train.record import RunRecord, run_key

DATA = {"name": "cora", "source": "", "licence": "", "files": {"x": "1"}, "options": {}}
RECORD = row(0.1 + 0.2, run=3, done=2) | {"data": DATA}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs.sqlite")


@pytest.fixture
def text(store, record, tmp_path):
    """The text form of a store with three runs."""
    store.merge(record(number, settings={"method": ("none", "rade-of")[number % 2]}) for number in (2, 0, 1))
    export(store, tmp_path / "text")
    return tmp_path / "text"


def test_a_run_survives_writing_and_reading_and_stays_as_it_is(store, record):
    assert store.records() == []
    assert store.put(record(1))
    assert not store.put(record(1, val=0.9))
    assert store.records() == [record(1)]
    assert store.records(curves=False) == [record(1, history={})]
    assert store.keys() == {record(1).key}


def test_the_text_form_holds_the_same_to_the_last_bit(store, text, tmp_path):
    assert open_store(text).records() == store.records()
    assert open_store(text).records(curves=False) == store.records(curves=False)
    assert open_store(text).keys() == store.keys()
    lines = [line.split(",")[3:6] for line in (text / "runs.csv").read_text().splitlines() if "gcn" in line]
    assert lines == [["none", "released", "0"], ["none", "released", "2"], ["rade-of", "released", "1"]]
    before = {path: path.read_bytes() for path in sorted(text.rglob("*")) if path.is_file()}
    export(open_store(text), text)  # also from itself
    export(store, tmp_path / "again")
    assert {path: path.read_bytes() for path in before} == before
    assert [(tmp_path / "again" / path.relative_to(text)).read_bytes() for path in before] == list(before.values())
    for wanted, count in ({"method": ("none", "rade-of")}, 3), ({"method": "rade-of"}, 1), ({"protocol": "paper"}, 0):
        assert len(store.records(**wanted)) == len(open_store(text).records(**wanted)) == count


def test_a_second_writer_is_told_readers_are_not_and_nothing_is_left_behind(store, record, text, tmp_path):
    with store.writing():
        store.put(record(5))
        with pytest.raises(RunError, match=r"somebody else writes to .*runs.sqlite; wait for that, or choose another"):
            Store(store.path).writing().__enter__()
        assert len(Store(store.path).records()) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.sqlite", "text"]
    with Store(store.path).writing() as again:
        assert again.put(record(6))


def test_an_export_loses_nothing_and_what_rade_train_left_is_merged(text, record, tmp_path):
    other, folder = Store(tmp_path / "other.sqlite"), tmp_path / "runs" / "none" / "run-7"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(record(7).to_json())
    assert [other.merge(records_below(tmp_path / "runs")) for _ in range(2)] == [1, 0]
    with pytest.raises(RunError, match=r"text holds 3 runs that .*other.sqlite lacks, and they would be lost"):
        export(other, text)
    other.merge(records_below(text))
    assert export(other, text) == 4
    (folder / "result.json").write_text("{")
    with pytest.raises(RunError, match=r"result.json is not a run of rade: Invalid JSON"):
        records_below(tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("runs.csv", lambda content: content.replace(b",0.5,", b",nan,", 1), "runs.csv, line 2, is damaged"),
        ("runs.csv", lambda content: content[:-60], "runs.csv, line 4, is damaged"),
        ("curves/cora.jsonl.gz", lambda content: content[:-9], "cora.jsonl.gz is damaged"),
        ("curves/cora.jsonl.gz", lambda content: gzip.compress(b""), "line 2, is damaged"),
        ("provenance.json", lambda content: b"[", "provenance.json is damaged"),
    ],
)
def test_damage_to_the_text_form_is_a_sentence(name, change, sentence, text):
    (text / name).write_bytes(change((text / name).read_bytes()))
    with pytest.raises(RunError, match=sentence):
        open_store(text).records()


def test_what_is_no_store_is_a_sentence(store, record):
    store.put(record(1))
    with sqlite3.connect(store.path) as base:
        base.execute("UPDATE runs SET record = ?", (json.dumps({"format": 2}),))
    with pytest.raises(RunError, match=r"runs.sqlite is not a run of rade: versions: Field required"):
        store.records()
    store.path.write_bytes(b"")
    assert store.records() == []  # its first writer was killed at once
    with closing(sqlite3.connect(store.path)) as base:
        base.execute("CREATE TABLE mine (x)")
    with pytest.raises(RunError, match="is damaged or was not written by rade"):
        store.writing().__enter__()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"val": "0.5"}, "val: Input should be a valid number, got '0.5'"),
        ({"format": 2}, "format: Input should be 1, got 2"),
        ({"epochs": 3}, "it has 3 epochs, and 2 values in its curve"),
        ({"settings": {"dataset": "cora"}}, "it has no backbone among its settings"),
        ({"timing": {}}, "timing.seconds: Field required"),
    ],
)
def test_what_is_no_run_is_a_sentence(change, sentence):
    with pytest.raises(ValidationError) as refused:
        RunRecord.model_validate(RECORD | change)
    assert complaint(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"settings": {"threads": 4}}, True),
        ({"settings": {"labels_per_class": 0, "train_items": 0}}, True),
        ({"data": {"source": "elsewhere"}}, True),
        ({"settings": {"train_items": 5}}, False),
        ({"settings": {"device": "cuda:1"}}, False),
        ({"data": {"files": {"x": "2"}}}, False),
        ({"processes": 2}, False),
    ],
    ids=str,
)
def test_what_decides_the_numbers_decides_the_key(changes, same):
    """Whatever else decides them, the keys of stored runs hold: see `test_golden_training.py`."""

    def key(settings=(), data=(), processes=1):
        return run_key(resolve("cora").model_copy(update=dict(settings)), 0, DATA | dict(data), processes)

    assert (key() == key(**changes)) is same
