"""With what a result was made: versions, commit, machine, data."""

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rade.data import Dataset


@cache
def versions() -> Mapping[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    names = {"rade": "rade-gnn", "torch": "torch", "torch_geometric": "torch_geometric", "numpy": "numpy"}
    return {"python": platform.python_version(), **{name: version(package) for name, package in names.items()}}


@cache
def commit() -> tuple[str, bool]:
    """The commit of the source tree and whether it has changes; empty and unchanged outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "", False
    described = done.stdout.strip() if done.returncode == 0 else ""
    return described.removesuffix("-dirty"), described.endswith("-dirty")


@cache
def machine() -> Mapping[str, Any]:
    """The kind of machine, without its name."""
    return {"cpu": _processor(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}


def _processor() -> str:
    """The processor's model; Linux tells it in a file only."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def origin(dataset: Dataset) -> dict[str, Any]:
    """Source, licence and checksums of a data set."""
    provenance = dataset.provenance
    return {
        "name": dataset.name,
        "source": provenance.source,
        "licence": provenance.licence,
        "files": dict(provenance.files),
        "options": dict(provenance.options),
    }
