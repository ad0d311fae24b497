"""One finished run: what its name is made of, its scores and curves, and with what it was made. Without torch.

Scores (`val`, `test` and the curves) are fractions as the metrics return them, 0.815 for 81.5 %.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

if TYPE_CHECKING:
    from rade.train.settings import Plan

# Part of every stored run's key. Raise it by one when the same settings, seed and data would give other scores than
# before, beyond rounding: a formula, a default inside a layer, the order of random draws, a reader's result, a split.
# New settings, faster code and reports do not count. Runs under an older number stay in the store and are done again.
NUMERICS = 1

NEUTRAL = frozenset({"seed", "threads", "device"})  # no other experiment: which repetition it is, and where it ran
# Settings that came after the first runs were stored: at these values they decide nothing and leave keys as they were.
LATER = {"labels_per_class": 0, "train_items": 0, "train_share": 0.0}
# Settings of runs, stored or not, where a record does not say them: what came later, and what is gone since.
UNSAID = {**LATER, "corrupt": "", "test_corrupt": ""}
# Options of RADE when the first runs were stored: keys still have them.
GONE_OPTIONS = {"complement": "exact", "samples": 256, "inference": "expected", "noise_p": 0.0, "noise_q": 0.0}
Curves = dict[str, list[FiniteFloat]]


SCORE = "score"  # the first of what a table can compare of a finished run


@dataclass(frozen=True)
class Measure:
    """Numbers of a table: shown times a factor, with so many digits, in words."""

    scale: float
    digits: int
    words: str


MEASURES = {
    SCORE: Measure(100, 2, "%"),
    "seconds_per_epoch": Measure(1, 3, "seconds per epoch"),
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Timing(_Part):
    """How long training took, and when it ended (UTC)."""

    seconds: FiniteFloat
    seconds_per_epoch: FiniteFloat
    finished: str = ""


class Origin(_Part):
    """Where a data set comes from; files: their sha256; options: what was done to it."""

    name: str
    source: str = ""
    licence: str = ""
    files: dict[str, str] = {}
    options: dict[str, Any] = {}


class RunRecord(_Part):
    """A finished run, validated once; equal for two runs of equal settings on one machine but for `timing`.

    settings: a dump of `Settings`, of older runs without those that came later; run: its number, or that of the fold;
    folds: how many the data set has; quality, variance: of older runs; history: one value per epoch and curve, empty
    where curves were not asked for.
    """

    versions: dict[str, str]
    commit: str
    dirty: bool
    machine: dict[str, Any]
    threads: int
    command: str = ""  # that repeats it
    data: Origin
    format: Literal[1] = 1
    key: str = Field(pattern="^[0-9a-f]{32}$")
    numerics: int
    settings: dict[str, Any]
    protocol: str
    run: int = Field(ge=0)
    seed: int
    metric: str
    folds: int
    val: FiniteFloat
    test: FiniteFloat
    quality: dict[str, FiniteFloat] = {}
    variance: dict[str, FiniteFloat] = {}
    best_epoch: int
    epochs: int = Field(gt=0)
    skipped: int = 0
    timing: Timing
    history: Curves = {}

    @model_validator(mode="after")
    def _sound(self) -> RunRecord:
        for name, kind in {"dataset": str, "backbone": str, "method": str, "seed": int, "options": dict}.items():
            if not isinstance(self.settings.get(name), kind):
                raise ValueError(f"it has no {name} among its settings")
        for name, curve in self.history.items():
            if len(curve) != self.epochs:
                raise ValueError(f"it has {self.epochs} epochs, and {len(curve)} values in its curve {name}")
        return self

    @property
    def method(self) -> str:
        """What it was trained with."""
        return str(self.settings["method"])

    @property
    def p(self) -> float:
        """The drop rate at the end, 0 for methods without."""
        return self.history["p"][-1]

    @property
    def q(self) -> float:
        """The add rate at the end."""
        return self.history["q"][-1]

    @property
    def pair(self) -> tuple[int, int]:
        """What two methods' runs must share to be compared: first seed and run, and so the split."""
        return int(self.settings["seed"]), self.run

    @property
    def place(self) -> tuple[str, str, str, int, int, str]:
        """What runs are sorted by: data set, backbone, method, run, seed, key."""
        names = (str(self.settings[name]) for name in ("dataset", "backbone", "method"))
        return (*names, self.run, self.seed, self.key)  # type: ignore[return-value]

    @property
    def flat(self) -> dict[str, Any]:
        """The settings, those that came later and the method's among them."""
        settings = {**UNSAID, **self.settings, "protocol": self.protocol}
        return {**settings, **settings.pop("options")}

    def to_json(self) -> str:
        """JSON, one member per line, the curves last; `model_validate_json` reads numbers back to the last bit."""
        members = self.model_dump(mode="json")
        members["history"] = members.pop("history")
        return "{" + ",\n".join(f"{plain(name)}:{plain(value)}" for name, value in members.items()) + "}\n"


def run_key(plan: Plan, run: int, data: Mapping[str, Any], processes: int = 1) -> str:
    """The name of a run: a hash of everything that decides its numbers.

    data: name, files and options as in a record; processes: how many share every batch, for each draws views of its
    own. Left out are the number of threads and which CPU or which of several GPUs computes: they decide rounding only,
    and a run repeated on another machine is the same run. The kind of device counts, for a GPU draws other random
    numbers.
    """
    settings = plan.model_dump(mode="json", exclude={"options", "threads"})
    if "layers" in settings:  # of a backbone of ours, which could be trained on a corrupted graph
        settings["corrupt"] = ""
    decides = {name: value for name, value in settings.items() if (name, value) not in LATER.items()}
    decides["device"] = plan.device.partition(":")[0]
    options = plan.all_options
    options = {**GONE_OPTIONS, **options} if "moments" in options else options
    origin = {name: data[name] for name in ("name", "files", "options")}
    whole = {"numerics": NUMERICS, "settings": decides, "options": options, "run": run, "data": origin}
    whole["processes"] = processes
    return hashlib.sha256(plain(whole).encode()).hexdigest()[:32]


@cache
def provenance() -> Mapping[str, Any]:
    """What runs are made with here: versions of what decides their numbers, the source tree, the kind of machine."""
    packages = {"rade": "rade-gnn", "torch": "torch", "torch_geometric": "torch_geometric", "numpy": "numpy"}
    versions = {"python": platform.python_version(), **{name: version(package) for name, package in packages.items()}}
    machine = {"cpu": _processor(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}
    described = _commit()
    commit = {"commit": described.removesuffix("-dirty"), "dirty": described.endswith("-dirty")}
    return {"versions": versions, "machine": machine, **commit}


def _commit() -> str:
    """The commit of the source tree and whether it has changes; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    """The processor's model; Linux tells it in a file only."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def plain(value: Any) -> str:
    """JSON with one spelling, for names made of contents."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
