"""With what a result was made: versions, commit, data."""

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
def commit() -> str:
    """The commit of the source tree, marked if it has changes; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


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
