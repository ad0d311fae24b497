"""Finished runs of a comparison in a folder: one sealed file each, and never those of another comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rade.comparison.identity import described, identity
from rade.comparison.run import Run, Work
from rade.train.errors import RunError
from rade.train.files import ensure_writable, load_record, save_record, sole_writer


@dataclass(frozen=True)
class Folder:
    """``METHOD/seed-N.json``, each with a name of all that decides it: data, training, the model under its method."""

    path: Path
    names: dict[tuple[str, int], str]  # by method and seed

    @staticmethod
    @contextmanager
    def of(path: Path, work: Work, seeds: tuple[int, ...]) -> Iterator[Folder]:
        """The folder, held for as long as somebody writes there."""
        with sole_writer(
            path / ".writer", f"{path} is in use by another process; wait for it, or choose another store="
        ):
            ensure_writable(path)
            common = f"{work.problem.fingerprint} {_plain(work)}"
            names = [method.name for method in work.methods]
            yield Folder(
                path, {(name, seed): identity(work.model(name, seed), common) for name in names for seed in seeds}
            )

    def get(self, method: str, seed: int) -> Run | None:
        """A finished run, None if it is still to be done; one of another comparison is an error."""
        path = self._file(method, seed)
        if not path.exists():
            return None
        record = load_record(path)
        if record.get("name") != self.names[method, seed]:
            raise RunError(
                f"{path} holds a run of another model or method, of other data or of another training; choose another "
                "folder for store=, or delete this one"
            )
        return Run(**record["run"])

    def put(self, run: Run) -> None:
        """Keep a run."""
        save_record(self._file(run.method, run.seed), {"name": self.names[run.method, run.seed], "run": run.asdict()})

    def _file(self, method: str, seed: int) -> Path:
        kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in method)
        mark = "" if kept == method else f"-{hashlib.sha256(method.encode()).hexdigest()[:8]}"
        return self.path / f"{kept}{mark}" / f"seed-{seed}.json"


def _plain(work: Work) -> str:
    """The training in words, with a metric of one's own."""
    values = asdict(work.training)
    return f"{described(values.pop('metric'))} {values}"
