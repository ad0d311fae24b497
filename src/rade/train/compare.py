"""Several methods on one data set, several runs each, in one folder."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import torch

from rade.data import Dataset
from rade.errors import choose
from rade.train.checkpoint import Keeping
from rade.train.files import save_json
from rade.train.folder import refuse_to_lose, run_folder, sole_writer, with_earlier
from rade.train.picture import draw_curves
from rade.train.process import Solo
from rade.train.progress import Progress
from rade.train.record import RunRecord
from rade.train.run import check_folds, check_level, train_run
from rade.train.settings import Settings
from rade.train.summary import Difference, Summary, in_common, paired, summarise

Existing = Literal["refuse", "resume", "overwrite"]


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


class Together:
    """Several watchers as one."""

    def __init__(self, *watchers: Watcher) -> None:
        self.watchers = watchers

    def begin(self, settings: Settings, run: int) -> None:
        """A run starts."""
        for watcher in self.watchers:
            watcher.begin(settings, run)

    def epoch(self, progress: Progress) -> None:
        """An epoch has ended."""
        for watcher in self.watchers:
            watcher.epoch(progress)

    def end(self, result: RunRecord) -> None:
        """A run has ended."""
        for watcher in self.watchers:
            watcher.end(result)


@dataclass(frozen=True)
class Comparison:
    """The outcome: one summary per method, and the files left behind."""

    summaries: tuple[Summary, ...]
    results: dict[str, list[RunRecord]]
    folder: Path
    picture: Path

    @property
    def differences(self) -> tuple[Difference | None, ...]:
        """How every other method differs from the first, on the runs that both have."""
        first, *others = self.summaries
        return (None, *(paired(*in_common(other, first)) for other in others))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [
            {"method": s.method, "metric": s.metric, "mean": s.mean, "std": s.std, "scores": s.scores}
            | {"selection": s.selection, "epoch": s.epoch, "seconds": s.seconds}
            | {"difference": None if gap is None else asdict(gap)}
            for s, gap in zip(self.summaries, self.differences)
        ]
        return {"summaries": rows, "folder": str(self.folder), "picture": str(self.picture)}


def compare(
    dataset: Dataset,
    plans: Sequence[Settings],
    runs: int,
    out: Path,
    *,
    first: int = 0,
    existing: Existing = "refuse",
    watcher: Watcher | None = None,
    keeping: Keeping = Keeping(),  # noqa: B008 - a frozen value
) -> Comparison:
    """Train every plan `runs` times below `out`, from run number `first`; leave `summary.json` and `curves.png` there.

    existing: what becomes of unfinished runs and results of other settings in `out`: they are refused, continued
        (``"resume"``) or replaced (``"overwrite"``). Nobody else may write there meanwhile.
    """
    choose("existing", existing, get_args(Existing))
    process, watcher = keeping.process, watcher or Together()
    for settings in plans:
        check_level(dataset, settings)
    numbers = range(first, first + runs)
    check_folds(dataset, numbers.stop)
    results: dict[str, list[RunRecord]] = {settings.method: [] for settings in plans}
    with sole_writer(out, process):
        if existing == "refuse":
            refuse_to_lose(out, plans, numbers)
        for settings, run in product(plans, numbers):
            if settings.threads:
                torch.set_num_threads(settings.threads)
            watcher.begin(settings, run)
            result = train_run(
                dataset,
                settings,
                run,
                run_folder(out, settings.method, run),
                resume=existing == "resume",
                observe=watcher.epoch,
                keeping=keeping,
            )
            results[settings.method].append(result)
            watcher.end(result)
        return _conclude(results, out, process)


def _conclude(results: dict[str, list[RunRecord]], out: Path, process: Solo) -> Comparison:
    """What was asked for is returned; the files tell of all runs in the folder that compare with it."""
    if process.rank == 0:
        whole = _comparison(with_earlier(results, out), out)
        save_json(out / "summary.json", whole.to_json())
        draw_curves(whole.results, whole.picture)
    return _comparison(results, out)


def _comparison(results: dict[str, list[RunRecord]], out: Path) -> Comparison:
    return Comparison(tuple(summarise(runs) for runs in results.values()), results, out, out / "curves.png")
