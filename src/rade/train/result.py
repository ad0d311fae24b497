"""The result file of a run, read back: verified, of the right form, and of the settings that are asked for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rade.augment import Learner
from rade.train.errors import RunError
from rade.train.files import load_row
from rade.train.matching import same_key, same_settings

Result = dict[str, Any]

# What the summary, the picture and the display rely on.
_FORM: Mapping[str, type | tuple[type, ...]] = {
    "settings": dict,
    "run": int,
    "metric": str,
    "folds": int,
    "val": float,
    "test": float,
    "best_epoch": int,
    "epochs": int,
    "history": dict,
    "timing": dict,
    "machine": dict,
}
_CURVES = ("val", "loss", "p", "q")


def read_result(path: Path) -> Result:
    """The content of a `result.json`."""
    result = load_row(path)
    if not (all(isinstance(result.get(name), kind) for name, kind in _FORM.items()) and _sound(result)):
        raise RunError(f"{path} is not a result of this version of rade; delete it to start this run afresh")
    return result


def _sound(result: Result) -> bool:
    """The values inside: a method's name, the time, one value per epoch and curve."""
    curves = [result["history"].get(name) for name in _CURVES]
    return (
        isinstance(result["settings"].get("method"), str)
        and isinstance(result["timing"].get("seconds"), int | float)
        and result["epochs"] > 0
        and all(isinstance(curve, list) and len(curve) == result["epochs"] for curve in curves)
        and all(isinstance(value, int | float) for curve in curves for value in curve or ())
    )


def finished(folder: Path, wanted: Mapping[str, Any], key: Callable[[int], str]) -> Result | None:
    """The result of a finished run with the `wanted` settings; None if the run is still to be done.

    `key` is the run's by the number of processes: any number serves, but data, defaults and numerics must agree.

    A result of other settings is an error, unless a checkpoint beside it tells that its replacement is under way.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    result = read_result(path)
    try:
        same_settings(result["settings"], wanted, path)
        same_key(result["key"], key(result["machine"]["processes"]), path)
    except RunError:
        if (folder / "checkpoint.pt").exists():
            return None
        raise
    return result


def skipped_steps(learner: Learner) -> int:
    """How many rate steps were not finite and therefore not taken; 0 for methods without such steps."""
    return sum(int(value) for name, value in learner.named_buffers() if name.endswith(".skipped"))
