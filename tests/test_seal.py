"""Records carry a checksum that notices every change."""

import json

import pytest

from rade.seal import SealError, checksum, sealed, verify

RECORD = {"settings": {"p": 0.5, "name": "rade-of ±"}, "run": 3, "history": {"val": [0.1, 1e-300, 5]}, "none": None}


def test_a_record_survives_a_file():
    verify(json.loads(json.dumps(sealed(RECORD), indent=1)))
    verify(sealed(sealed(RECORD)))
    assert checksum(RECORD) == checksum(dict(reversed(RECORD.items())))


def test_every_flipped_bit_of_the_content_is_noticed():
    """All bits of the text: a file that still parses to something else is refused."""
    whole = sealed(RECORD)
    text = json.dumps(whole).encode()
    noticed = 0
    for position in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[position // 8] ^= 1 << (position % 8)
        try:
            record = json.loads(damaged)
        except ValueError:
            continue
        if record != whole:
            noticed += 1
            with pytest.raises(SealError):
                verify(record)
    assert noticed > 100


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ([1], "a record must be a JSON object, got list"),
        (RECORD, "it has no checksum"),
        ({**sealed(RECORD), "run": 4}, "its content does not fit its checksum"),
        ({"x": float("nan"), "checksum": ""}, "it holds what no record of rade holds, such as NaN"),
        ({"x": {1, 2}, "checksum": ""}, "it holds what no record of rade holds"),
    ],
)
def test_what_was_not_sealed_is_refused(record, sentence):
    with pytest.raises(SealError, match=sentence):
        verify(record)


def test_numbers_that_json_lacks_cannot_be_sealed():
    with pytest.raises(ValueError, match="not JSON compliant"):
        sealed({"x": float("inf")})
