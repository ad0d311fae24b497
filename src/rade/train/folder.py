"""Several methods on one data set, several runs each, in one folder: `OUT/METHOD/run-N`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch

from rade.data import Dataset
from rade.errors import RadeError, RunError
from rade.statistics import Pair, Paired, best_common_epoch, paired_scores, spread
from rade.train.files import ensure_writable, load_run_record, save_json, sole_writer, sweep, write_whole
from rade.train.loop import Progress
from rade.train.process import Solo
from rade.train.record import RunRecord
from rade.train.run import Keeping, same_settings, train_run
from rade.train.settings import Settings
from rade.train.stages import check_folds, check_level

Existing = Literal["refuse", "resume", "overwrite"]
Results = dict[str, list[RunRecord]]  # by method
LEGEND = "line: mean over runs; band: ± one standard deviation; dots: epochs that validation chose"
_OWN = {"method", "options"}  # settings in which methods that are compared may differ


class Watcher(Protocol):
    """Sees training as it happens."""

    def begin(self, settings: Settings, run: int) -> None:
        """A run starts."""
        ...

    def epoch(self, progress: Progress) -> None:
        """An epoch has ended."""
        ...

    def end(self, result: RunRecord) -> None:
        """A run has ended."""
        ...


@dataclass(frozen=True)
class Summary:
    """Scores of the runs of one method, and how they were chosen; folds: how many there are, where runs are folds."""

    method: str
    metric: str
    scores: Mapping[Pair, float]
    selection: str
    seconds: float
    epoch: int | None = None  # the same for all runs where they are folds
    folds: int = 0

    def __str__(self) -> str:
        found = spread(list(self.scores.values()))
        return f"{100 * found.mean:.2f}" + ("" if found.std is None else f" ± {100 * found.std:.2f}")

    def against(self, other: Summary) -> Paired | None:
        """The difference in points, on the seeds, splits or folds that both have; None without any."""
        return paired_scores(self.scores, other.scores, self.folds)


def summarise(results: Sequence[RunRecord]) -> Summary:
    """Test scores at each run's best validation epoch, or the cross-validation protocol where the data has folds."""
    first, epoch = results[0], None
    scores = tuple(result.test for result in results)
    selection = "test score at the best validation epoch"
    if first.folds > 0:
        epoch, scores = best_common_epoch([result.history["val"] for result in results])
        selection = "best epoch of the fold-averaged validation curve"
    by_pair = {(result.settings["seed"], result.run): score for result, score in zip(results, scores)}
    seconds = sum(result.timing.seconds for result in results)
    return Summary(first.settings["method"], first.metric, by_pair, selection, seconds, epoch, first.folds)


@dataclass(frozen=True)
class Summaries:
    """Results by method, and where their files are; the first method is what the others are compared with."""

    results: Results
    folder: Path

    @property
    def picture(self) -> Path:
        """The curves."""
        return self.folder / "curves.png"

    @cached_property
    def each(self) -> list[Summary]:
        """One per method."""
        return [summarise(runs) for runs in self.results.values()]

    @property
    def differences(self) -> list[Paired | None]:
        """To the first method, in points."""
        first, *others = self.each
        return [None, *(other.against(first) for other in others)]

    def to_json(self) -> dict[str, Any]:
        """Plain values, all as fractions."""
        rows = []
        for summary, gap in zip(self.each, self.differences):
            scores = list(summary.scores.values())
            found = spread(scores)
            ends = {} if gap is None else {"mean": gap.mean, "low": gap.low, "high": gap.high}
            difference = {name: None if value is None else value / 100 for name, value in ends.items()}
            row = {"method": summary.method, "metric": summary.metric, "mean": found.mean, "std": found.std}
            row |= {"scores": scores, "selection": summary.selection, "epoch": summary.epoch}
            rows.append(row | {"seconds": summary.seconds, "difference": difference or None})
        return {"summaries": rows, "folder": str(self.folder), "picture": str(self.picture)}


def train_all(
    dataset: Dataset,
    plans: Sequence[Settings],
    runs: Sequence[int],
    out: Path,
    *,
    existing: Existing = "refuse",
    watchers: Sequence[Watcher] = (),
    keeping: Keeping = Keeping(),  # noqa: B008 - a frozen value
) -> Summaries:
    """Train every plan on every run below `out`; leave `summary.json` and `curves.png` there.

    existing: what becomes of unfinished runs and results of other settings in `out`: they are refused, continued
        (``"resume"``) or replaced (``"overwrite"``). Nobody else may write there meanwhile.
    """
    for settings in plans:
        check_level(dataset, settings)
    check_folds(dataset, max(runs) + 1)
    results: Results = {settings.method: [] for settings in plans}

    def observe(progress: Progress) -> None:
        for watcher in watchers:
            watcher.epoch(progress)

    with holding(out, keeping.process):
        if existing == "refuse":
            refuse_to_lose(out, plans, runs)
        for settings, run in product(plans, runs):
            if settings.threads:
                torch.set_num_threads(settings.threads)
            for watcher in watchers:
                watcher.begin(settings, run)
            folder, resume = run_folder(out, settings.method, run), existing == "resume"
            result = train_run(dataset, settings, run, folder, resume=resume, observe=observe, keeping=keeping)
            results[settings.method].append(result)
            for watcher in watchers:
                watcher.end(result)
        if keeping.process.rank == 0:  # the files tell of all runs in the folder that compare with these
            whole = Summaries(with_earlier(results, out), out)
            save_json(out / "summary.json", whole.to_json())
            figure = curves_figure(whole.results)
            write_whole(whole.picture, lambda file: figure.savefig(file, format="png", dpi=120))
    return Summaries(results, out)


def run_folder(out: Path, method: str, run: int) -> Path:
    """Where a run's files are; a method of one's own is named with a dot for the colon."""
    return out / method.replace(":", ".") / f"run-{run}"


@contextmanager
def holding(out: Path, process: Solo) -> Iterator[None]:
    """Hold the folder, by the first process for all, and clear away what killed ones left half-written."""
    with ExitStack() as stack:
        failure = None
        if process.rank == 0:
            try:
                busy = f"{out} is in use by another process; wait for it, or choose another folder with --out"
                stack.enter_context(sole_writer(out / ".writer", busy))
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
    for settings, run in product(plans, runs):
        folder = run_folder(out, settings.method, run)
        if (folder / "checkpoint.pt").exists():
            raise RunError(f"{folder} holds an unfinished run; --resume continues it, --overwrite starts it over")
        path = folder / "result.json"
        if path.exists():
            same_settings(load_run_record(path).settings, settings.model_dump(mode="json"), path, advice)


def with_earlier(results: Results, out: Path) -> Results:
    """The results and, beside them, those of earlier calls: other runs, and other methods of the same settings.

    Methods keep the order of the summary that is there, so that differences keep their baseline.
    """
    shared = _without(next(iter(results.values()))[0])
    found = {method: {run.run: run for run in runs} for method, runs in results.items()}
    for path in sorted(out.glob("*/run-*/result.json")):
        try:
            other = load_run_record(path)
        except RadeError:  # unreadable ones are left out, as are those of other settings
            continue
        mine = found.setdefault(other.settings["method"], {})
        same = all(run.settings == other.settings for run in mine.values()) and _without(other) == shared
        if same and path.parent == run_folder(out, other.settings["method"], other.run):
            mine.setdefault(other.run, other)
    order = [method for method in dict.fromkeys([*_summarised(out), *found]) if found.get(method)]
    return {method: [found[method][run] for run in sorted(found[method])] for method in order}


def _without(result: RunRecord) -> dict[str, object]:
    return {name: value for name, value in result.settings.items() if name not in _OWN}


def _summarised(out: Path) -> list[str]:
    """The methods of the summary that is there, if it can be read."""
    try:
        return [str(row["method"]) for row in json.loads((out / "summary.json").read_text("utf-8"))["summaries"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []


def curves_figure(results: Mapping[str, Sequence[RunRecord]]) -> Any:
    """Validation and test score, training loss and rates over epochs, with the chosen epoch of every run.

    Test curves only where they were recorded, the test scores of chosen epochs always.
    """
    from matplotlib.figure import Figure

    first = next(iter(results.values()))[0]
    figure = Figure(figsize=(17, 3.8), layout="constrained")
    titles = {"val": f"validation {first.metric}", "test": f"test {first.metric}", "loss": "training loss"}
    titles |= {"p": "drop rate p", "q": "add rate q"}
    for panel, (name, title) in zip(figure.subplots(1, len(titles)), titles.items()):
        for number, (method, runs) in enumerate(results.items()):
            curves = [run.history[name] for run in runs if run.history.get(name)]
            _draw(panel, curves, method, f"C{number}")
            if name in ("val", "test"):
                epochs, scores = [run.best_epoch for run in runs], [getattr(run, name) for run in runs]
                label = None if curves else method
                panel.plot(epochs, scores, "o", color=f"C{number}", markersize=4, markeredgecolor="white", label=label)
        panel.set_title(title)
        panel.set_xlabel("epoch")
        panel.grid(alpha=0.3)
    figure.axes[0].legend()
    counts = sorted({len(runs) for runs in results.values()})
    many = "1 run" if counts == [1] else f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]}–{counts[-1]} runs"
    names = f"{first.settings['dataset']}, {first.settings['backbone']}"
    figure.suptitle(f"{names}, {many} per method ({LEGEND})", fontsize="medium")
    return figure


def _draw(panel: Any, curves: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Runs stop at different epochs: each keeps its last value up to the longest."""
    if not curves:
        return
    length = max(len(curve) for curve in curves)
    table = np.array([np.pad(np.asarray(curve, float), (0, length - len(curve)), mode="edge") for curve in curves])
    epochs, mean, band = np.arange(1, length + 1), table.mean(0), table.std(0, ddof=min(1, len(curves) - 1))
    panel.plot(epochs, mean, color=color, label=label, linewidth=1.2)
    panel.fill_between(epochs, mean - band, mean + band, color=color, alpha=0.15, linewidth=0)
