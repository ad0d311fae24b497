"""The grid: which runs of a plan are missing, in which order, and doing them until they are done or time is up."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import inf

from rade.experiment import failures
from rade.experiment.claims import Claims
from rade.experiment.engine import Engine, Event
from rade.experiment.estimate import Timings, same
from rade.experiment.jobs import Job, Task
from rade.experiment.store import Store, unfinished
from rade.experiment.work import Perform, Place
from rade.train.checkpoint import StopAsked
from rade.train.errors import SettingsError


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count` (from 1): every run belongs to one part, whatever the store holds."""

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise SettingsError(f"a shard i/n needs 1 ≤ i ≤ n, got {self.index}/{self.count}")

    @staticmethod
    def parse(text: str) -> "Shard":
        """`3/8` on the command line.

        >>> Shard.parse("3/8")
        Shard(index=3, count=8)
        """
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal()):
            raise SettingsError(f"--shard expects i/n such as 3/8, got {text!r}")
        return Shard(int(index), int(count))

    def holds(self, job: Job) -> bool:
        """Whether a run belongs to this part."""
        return int(job.key, 16) % self.count == self.index - 1


@dataclass
class Grid:
    """The runs of a plan: those in the store, those to be done in this order, and what has become of them."""

    tasks: Sequence[Task]
    done: set[str]
    queue: list[Job]
    expected: dict[str, float]  # seconds by key
    kinds: Mapping[str, str]  # by key: equal where only the seed differs
    running: dict[str, float] = field(default_factory=dict)  # since when, by key
    failed: dict[str, tuple[Job, str]] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)  # by key: which other grid on the store has it
    rough: set[str] = field(default_factory=set)  # keys whose time is guessed from sizes
    finished: int = 0  # by this grid

    @property
    def jobs(self) -> dict[str, Job]:
        """All runs of the plan by key; cells of several tables may share some."""
        return {job.key: job for task in self.tasks for job in task.jobs}

    def missing(self, task: Task) -> int:
        """Runs of a cell that are not in the store."""
        return sum(job.key not in self.done for job in task.jobs)

    def seconds_left(self, workers: int) -> float:
        """For all that is in the queue or under way, shared by so many workers."""
        now = time.monotonic()
        left = 0.0
        for job in self.queue:
            if job.key not in self.done and job.key not in self.failed and job.key not in self.elsewhere:
                left += max(0.0, self.expected[job.key] - (now - self.running.get(job.key, now)))
        return left / workers

    def note(self, event: Event) -> None:
        """Keep account of an event."""
        key = event.job.key
        if event.kind == "started":
            self.running.setdefault(key, time.monotonic())
        elif event.kind in ("done", "failed", "stopped"):
            self.running.pop(key, None)
        if event.kind == "done":
            self.done.add(key)
            self.finished += 1
            self._learn(key, event.value["timing"]["seconds"])
        elif event.kind == "failed":
            self.failed[key] = (event.job, str(event.value))

    def _learn(self, key: str, seconds: float) -> None:
        """Runs of the same settings will take as long as the last one did."""
        for other, kind in self.kinds.items():
            if kind == self.kinds[key]:
                self.expected[other] = seconds
                self.rough.discard(other)


def missing_jobs(tasks: Iterable[Task], done: set[str], shard: Shard) -> list[Job]:
    """Each run once that the store lacks and that is this shard's."""
    found = {job.key: job for task in tasks for job in task.jobs if job.key not in done and shard.holds(job)}
    return list(found.values())


def ready(tasks: Sequence[Task], done: set[str], shard: Shard, timings: Timings, store: Store) -> Grid:
    """The grid of a plan before its first run."""
    jobs = missing_jobs(tasks, done, shard)
    expected = {job.key: timings.seconds(job) for job in jobs}
    kinds = {job.key: same(job.settings.model_dump(mode="json")) for job in jobs}
    rough = {job.key for job in jobs if timings.is_rough(job)}
    return Grid(tasks, set(done), ordered(tasks, jobs, expected, store, done), expected, kinds, rough=rough)


def ordered(
    tasks: Sequence[Task], jobs: Sequence[Job], expected: Mapping[str, float], store: Store, done: set[str]
) -> list[Job]:
    """Runs with a checkpoint first, then cell by cell: those begun before, and of them the soonest done."""
    wanted = {job.key: job for job in jobs}
    begun = set(unfinished(store))

    def rank(task: Task) -> tuple[bool, float]:
        fresh = not any(job.key in done or job.key in begun for job in task.jobs)
        seconds = [expected[job.key] for job in task.jobs if job.key in wanted]
        return fresh, sum(seconds)

    queue = {key: wanted[key] for key in sorted(begun & set(wanted))}
    for task in sorted(tasks, key=rank):
        queue |= {job.key: job for job in task.jobs if job.key in wanted and job.key not in queue}
    return list(queue.values())


def work_off(grid: Grid, engine: Engine, place: Place, stop_asked: StopAsked, budget: float = inf) -> Iterator[Event]:
    """Do the queue, taking account of every event before it is passed on; after `budget` seconds nothing new starts."""
    store, until = Store(place.store), time.monotonic() + budget
    with closing(Claims(store)) as claims:
        jobs = _open_jobs(grid, store, claims, lambda: time.monotonic() >= until)
        for event in engine.run(jobs, Perform(place), stop_asked):
            grid.note(event)
            if event.kind == "done":
                store.put(event.value)  # from a worker that does not see the store; otherwise it is there
                failures.forget(store, event.job.key)
            elif event.kind == "failed":
                failures.note(store, event.job, str(event.value), place.threads)
            if event.kind in ("done", "failed", "stopped"):
                claims.release(event.job.key)
            yield event


def _open_jobs(grid: Grid, store: Store, claims: Claims, over: Callable[[], bool]) -> Iterator[Job]:
    """Runs of the queue that no other grid on the store has done or is doing, each claimed before it is given out."""
    for job in _twice(grid):
        if over():
            return
        other = "" if store.has(job.key) else claims.take(job.key)
        if other:
            grid.elsewhere[job.key] = other
            continue
        grid.elsewhere.pop(job.key, None)
        if store.has(job.key):  # looked at again under the claim: the other grid may just have ended it
            claims.release(job.key)
            grid.done.add(job.key)
        else:
            yield job


def _twice(grid: Grid) -> Iterator[Job]:
    """The queue, and then once more those that others had: they may have given up."""
    yield from grid.queue
    yield from [job for job in grid.queue if job.key in grid.elsewhere]
