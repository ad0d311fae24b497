"""A record holds what a run is, to the last bit, and refuses what is none."""

import json

import pytest
from tests.report.synthetic import row

from rade.train.record import RecordError, RunRecord, key_of

DATA = {"name": "cora", "source": "", "licence": "", "files": {"x": "1"}, "options": {}}
CURVES = {"val": [0.30000000000000004, 1 / 3], "loss": [5e-324, 1.7e308]}
RECORD = row(0.1 + 0.2, run=3, done=2, history=CURVES) | {"test": 1e-17, "data": DATA}
SETTINGS = RECORD["settings"]


def test_numbers_survive_to_the_last_bit():
    record = RunRecord.of(RECORD)
    again = RunRecord.from_json(record.to_json())
    assert again == record
    assert {name: json.loads(record.to_json())[name] for name in RECORD if name != "timing"} == {
        name: RECORD[name] for name in RECORD if name != "timing"
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"val": "0.5"}, "val must be a valid number, got '0.5'"),
        ({"val": float("nan")}, "val must be a finite number"),
        ({"run": True}, "run must be a valid integer"),
        ({"run": -1}, "run must be greater than or equal to 0"),
        ({"key": "short"}, "key string must match pattern"),
        ({"format": 2}, "has format 2, and this version of rade reads format 1"),
        ({"epochs": 3}, "has 3 epochs, and 2 values in its curve"),
        ({"history": {"val": [0.5, None]}}, r"history.val.1 must be a valid number"),
        ({"settings": {"dataset": "cora"}}, "has no backbone among its settings"),
        ({"timing": {}}, "it has no timing.seconds"),
    ],
)
def test_what_is_no_run_is_a_sentence(change, sentence):
    with pytest.raises(RecordError, match=sentence):
        RunRecord.of(RECORD | change)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_a_sentence(content):
    with pytest.raises(RecordError, match=r"is incomplete or not JSON|is not a run of rade"):
        RunRecord.from_json(content)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"settings": {"threads": 4}}, True),
        ({"settings": {"test_corrupt": "", "train_items": 0}}, True),
        ({"data": {"source": "elsewhere"}}, True),
        ({"settings": {"lr": 0.2}}, False),
        ({"settings": {"seed": 1}}, False),
        ({"settings": {"device": "cuda:1"}}, False),
        ({"settings": {"train_items": 5}}, False),
        ({"options": {"rate": 0.6}}, False),
        ({"run": 1}, False),
        ({"data": {"files": {"x": "2"}}}, False),
        ({"processes": 2}, False),
    ],
    ids=str,
)
def test_what_decides_the_numbers_decides_the_key(changes, same):
    asked = {"settings": SETTINGS, "options": {"rate": 0.5}, "run": 0, "data": DATA, "processes": 1}
    other = {
        name: {**value, **changes.get(name, {})} if isinstance(value, dict) else changes.get(name, value)
        for name, value in asked.items()
    }
    assert (key_of(**asked) == key_of(**other)) is same


def test_devices_of_a_kind_share_keys_and_numerics_tell_them_apart(monkeypatch):
    cuda = [key_of(SETTINGS | {"device": name}, {}, 0, DATA) for name in ("cuda", "cuda:1")]
    assert cuda[0] == cuda[1]
    monkeypatch.setattr("rade.train.record.NUMERICS", 10**6)
    assert key_of(SETTINGS | {"device": "cuda"}, {}, 0, DATA) != cuda[0]
