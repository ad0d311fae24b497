"""One finished run as one file: what its name is made of, how it is written, and how damage shows. Without torch.

Scores (`val`, `test` and the curves) are fractions as the metrics return them, 0.815 for 81.5 %.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rade.train.numerics import NOISE, NUMERICS

Row = dict[str, Any]

FORMAT = 1
REQUIRED = frozenset(
    {
        *("format", "key", "numerics", "settings", "protocol", "run", "seed", "metric", "folds", "val", "test"),
        *("best_epoch", "epochs", "history", "timing", "versions", "commit", "dirty", "machine", "threads"),
        *("command", "data"),
    }
)
NEUTRAL = frozenset({"seed", "threads", "device"})  # no other experiment: which repetition it is, and where it ran
# Settings that came after the first rows were stored: at these values they decide nothing and leave keys as they were.
LATER = {"test_corrupt": "", "labels_per_class": 0, "train_items": 0, "train_share": 0.0}
LATER_OPTIONS = {"noise_trust": ""}  # of methods, likewise
_CURVES = b',\n"history":'
_SEAL = b',\n"checksum":"'


def key_of(
    settings: Mapping[str, Any], options: Mapping[str, Any], run: int, data: Mapping[str, Any], processes: int = 1
) -> str:
    """The name of a run: a hash of everything that decides its numbers.

    settings: a dump of `Settings`; options: the method's, defaults filled in; data: name, files and options as in a
    row; processes: how many share every batch, for each draws views of its own.
    Left out are the number of threads and which CPU or which of several GPUs computes: they decide rounding only, and
    a run repeated on another machine is the same run. The kind of device counts, for a GPU draws other random numbers.
    """
    decides = {name: value for name, value in settings.items() if name not in ("options", "threads", "device")}
    decides = {name: value for name, value in decides.items() if name not in LATER or value != LATER[name]}
    later = LATER_OPTIONS
    options = {name: value for name, value in options.items() if name not in later or value != later[name]}
    decides["device"] = str(settings["device"]).partition(":")[0]
    origin = {name: data[name] for name in ("name", "files", "options")}
    whole = {"numerics": NUMERICS, "settings": decides, "options": options, "run": run, "data": origin}
    whole["processes"] = processes
    if options.get("noise_p") or options.get("noise_q"):
        whole["noise"] = NOISE
    return hashlib.sha256(_plain(whole).encode()).hexdigest()[:32]


def sealed(row: Row) -> Row:
    """The row with its checksum."""
    return {**row, "checksum": _checksum(_body(row))}


def encode(row: Row) -> bytes:
    """The content of a row's file: JSON, one member per line, the curves and then the checksum last."""
    body = _body(row)
    return body + _SEAL + _checksum(body).encode() + b'"}\n'


def decode(content: bytes, curves: bool = True) -> Row:
    """Read a row, `curves` (its history) only if asked for; a ValueError says what is wrong with it."""
    body, found, tail = content.rpartition(_SEAL)
    checksum = tail.rstrip().removesuffix(b'"}').decode("ascii", "replace")
    if not found or _checksum(body) != checksum:
        return _reformatted(content, curves)
    if not curves:
        body = body[: body.rfind(_CURVES)]
    row: Row = json.loads(body + b"}")
    _check(row, REQUIRED if curves else REQUIRED - {"history"})
    return {**row, "checksum": checksum}


def _reformatted(content: bytes, curves: bool) -> Row:
    """A row whose bytes are not ours but whose values may be: indented by hand or by another program."""
    try:
        row = json.loads(content)
    except ValueError:
        raise ValueError("is torn or no JSON") from None
    if not isinstance(row, dict):
        raise ValueError("is not a run of rade")
    _check(row, REQUIRED)
    if _checksum(_body(row)) != row.get("checksum"):
        raise ValueError("was changed after it was written: its checksum does not match")
    return row if curves else {name: value for name, value in row.items() if name != "history"}


def _check(row: Row, required: frozenset[str]) -> None:
    if "format" in row and row["format"] != FORMAT:
        raise ValueError(f"has format {row['format']!r}, and this version of rade reads format {FORMAT}")
    missing = sorted(required - set(row))
    if missing:
        raise ValueError(f"is not a run of rade: it has no {missing[0]}")


def _body(row: Row) -> bytes:
    """All but the checksum and the closing brace; equal rows give equal bytes."""
    names = sorted(set(row) - {"history", "checksum"}) + (["history"] if "history" in row else [])
    return ("{" + ",\n".join(f"{_plain(name)}:{_plain(row[name])}" for name in names)).encode()


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body + b"}").hexdigest()


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
