"""The authors' published scripts, timed in the same run where a checkout of them is at hand."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from rade.bench.cases import Case
from rade.bench.measure import Row, Setting
from rade.data.catalogue import resolve
from rade.data.files import data_root
from rade.errors import RadeError

SCRIPT = Path("RADE_Node_Classification") / "full_batch" / "main.py"
# Where PyG's data sets look for raw files, below the folder that the script is given.
PLACES = {
    "cora": "Planetoid/Cora",
    "pubmed": "Planetoid/Pubmed",
    "cs": "Coauthor/CS",
    "computer": "Amazon/Computers",
    "physics": "Coauthor/Physics",
}
GOALS = {("cora", "gcn"): 0.1, ("cs", "gcn"): 0.05, ("computer", "gcn"): 0.04}  # ours over theirs
TOY = "cora"  # what a quick run names; it brings no data


@dataclass(frozen=True)
class Checkout:
    """A folder that holds the authors' repository."""

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / SCRIPT).is_file():
            raise RadeError(
                f"{self.folder} is no checkout of the authors' scripts: it has no {SCRIPT.as_posix()}; "
                "clone their repository and pass that folder to --authors"
            )

    def seconds_per_epoch(self, data: str, backbone: str, root: Path, epochs: int) -> float:
        """Two runs of different length: what they share, imports and data and the first epoch, cancels out."""
        short, long = (self._run(data, backbone, root, count) for count in (1, 1 + epochs))
        return max(long - short, 0.0) / epochs

    def _run(self, data: str, backbone: str, root: Path, epochs: int) -> float:
        options = {"dataset": data, "gnn": backbone, "data_dir": str(root), "epochs": epochs, "runs": 1, "patience": 0}
        command = [sys.executable, str((self.folder / SCRIPT).resolve()), "--cpu"]
        command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
        start = perf_counter()
        # In the folder of the data, which is thrown away: the script writes its results where it runs.
        done = subprocess.run(command, cwd=root, env=os.environ | threads, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
            raise RadeError(f"the authors' script failed with {backbone} on {data}: {last}")
        return perf_counter() - start


def against_authors(setting: Setting, case: Case, ours: float) -> Iterator[Row]:
    """Full RADE-OF here over theirs, an epoch with its evaluation each; nothing without a checkout."""
    if setting.authors is None or (case.data not in PLACES and not setting.quick):
        return
    goal = GOALS.get((case.data, case.backbone))
    if setting.goals and goal is None and not setting.quick:
        return
    checkout, name = Checkout(Path(setting.authors)), TOY if setting.quick else case.data
    with tempfile.TemporaryDirectory(prefix="rade-bench-") as folder:
        root = Path(folder)
        if not setting.quick:
            lend(case.data, root, setting.data_root)
        theirs = checkout.seconds_per_epoch(name, case.backbone, root, setting.repeats)
    where = f"{case.backbone} on {case.data}"
    yield Row("epoch", f"authors' RADE-OF, {where}", theirs)
    ratio = ours / theirs if theirs > 0.0 else None
    yield Row("epoch", f"rade-of, {where}", ours, "the authors' RADE-OF", ratio, goal)


def lend(data: str, root: Path, given: str | None) -> None:
    """Raw files where the script looks for them; what PyG makes of them stays out of the data root."""
    place = root / PLACES[data]
    place.mkdir(parents=True)
    (place / "raw").symlink_to((data_root(given) / resolve(data).folder / "raw").resolve(), target_is_directory=True)
