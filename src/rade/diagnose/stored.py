"""Diagnoses beside the runs of a store: files that a report can read without torch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rade.train.files import save_json

if TYPE_CHECKING:
    from rade.diagnose.diagnosis import Diagnosis

FOLDER = "studies/diagnoses"
FORMAT = 1


def keep(found: Diagnosis, store: Path) -> Path:
    """Write a diagnosis into a store, named by the data set and its content: an equal one replaces itself."""
    record = {"format": FORMAT, **found.to_json()}
    name = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]
    path = store / FOLDER / f"{found.dataset}-{name}.json"
    save_json(path, record)
    return path
