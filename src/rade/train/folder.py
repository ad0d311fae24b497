"""The folder of a comparison, `OUT/METHOD/run-N`: who may write there, and what is there already."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rade.augment import METHODS
from rade.errors import RadeError
from rade.train.errors import RunError
from rade.train.files import ensure_writable, load_run_record, sweep
from rade.train.lock import locked
from rade.train.matching import same_settings
from rade.train.process import Solo
from rade.train.record import RunRecord
from rade.train.settings import Settings

_OWN = {"method", "options"}  # settings in which methods that are compared may differ


def run_folder(out: Path, method: str, run: int) -> Path:
    """Where a run's files are."""
    return out / method / f"run-{run}"


@contextmanager
def sole_writer(out: Path, process: Solo) -> Iterator[None]:
    """Hold the folder, by the first process for all, and clear away what killed ones left half-written."""
    with ExitStack() as stack:
        failure = None
        if process.rank == 0:
            try:
                stack.enter_context(locked(out))
                ensure_writable(out)
            except RadeError as error:
                failure = error
        failure = process.collect(failure)[0]
        if failure is not None:
            raise failure
        if process.rank == 0:
            sweep(out, "summary.json", "curves.png", ".writable")
            for folder in out.glob("*/run-*"):
                sweep(folder, "checkpoint.pt", "model.pt", "result.json", ".writable")
        yield


def refuse_to_lose(out: Path, plans: Sequence[Settings], runs: Iterable[int]) -> None:
    """Stop before an earlier run's files are replaced, unless it is finished and would only be repeated."""
    advice = "choose another folder with --out, or replace what is there with --overwrite"
    for settings in plans:
        for run in runs:
            folder = run_folder(out, settings.method, run)
            if (folder / "checkpoint.pt").exists():
                raise RunError(f"{folder} holds an unfinished run; --resume continues it, --overwrite starts it over")
            path = folder / "result.json"
            if path.exists():
                same_settings(load_run_record(path)["settings"], settings.model_dump(mode="json"), path, advice)


def with_earlier(results: Mapping[str, Sequence[RunRecord]], out: Path) -> dict[str, list[RunRecord]]:
    """The results and, beside them, those of earlier calls: other runs, and other methods of the same settings.

    Methods keep the order of the summary that is there, so that differences keep their baseline.
    """
    shared = next(iter(results.values()))[0]["settings"]
    there = sorted({folder.parent.name for folder in out.glob("*/run-*")})
    methods = [name for name in dict.fromkeys([*_summarised(out), *results, *there]) if name in METHODS]
    found = {method: _completed(list(results.get(method, ())), out, method, shared) for method in methods}
    return {method: runs for method, runs in found.items() if runs}


def _completed(results: list[RunRecord], out: Path, method: str, shared: Mapping[str, object]) -> list[RunRecord]:
    """All runs of the folder by number; those that are unreadable or of other settings are left out."""
    found = {result["run"]: result for result in results}
    wanted = results[0]["settings"] if results else None
    for path in sorted(out.glob(f"{method}/run-*/result.json"), key=_number):
        if _number(path) in found:
            continue
        try:
            other = load_run_record(path)
        except RadeError:
            continue
        settings = other["settings"]
        same = _without(settings) == _without(shared) if wanted is None else settings == wanted
        if same and settings["method"] == method and other["run"] == _number(path):
            found[other["run"]], wanted = other, settings
    return [found[run] for run in sorted(found)]


def _number(path: Path) -> int:
    """N of …/run-N/result.json, −1 where it is no number."""
    digits = path.parent.name.removeprefix("run-")
    return int(digits) if digits.isdecimal() else -1


def _without(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if name not in _OWN}


def _summarised(out: Path) -> list[str]:
    """The methods of the summary that is there, if it can be read."""
    try:
        names = [row["method"] for row in json.loads((out / "summary.json").read_text("utf-8"))["summaries"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)]
