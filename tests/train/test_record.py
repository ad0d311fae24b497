"""A record refuses what is no run; its key follows from what decides the numbers."""

import pytest
from pydantic import ValidationError
from tests.report.synthetic import row

from rade.errors import complaint
from rade.train import resolve
from rade.train.record import RunRecord, run_key

DATA = {"name": "cora", "source": "", "licence": "", "files": {"x": "1"}, "options": {}}
RECORD = row(0.1 + 0.2, run=3, done=2) | {"data": DATA}


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
        ({"settings": {"test_corrupt": "", "train_items": 0}}, True),
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
