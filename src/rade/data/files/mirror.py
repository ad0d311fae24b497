"""Offline mirrors: copy raw files into the data root, each checked before it is put in place."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rade.data.catalogue import catalogue, members
from rade.data.errors import DataError
from rade.data.files.manifest import RawFile, raw_files, sha256_of
from rade.data.files.placing import place
from rade.data.files.raw import unreadable_sentence
from rade.data.files.root import data_root
from rade.data.files.temporary import sweep

State = Literal["imported", "present", "missing", "refused", "generated"]


@dataclass(frozen=True)
class Imported:
    """What happened to one file: copied, there already, absent from the mirror, or refused; or that none is needed."""

    dataset: str
    path: str
    state: State
    optional: bool
    reason: str = ""


def import_mirror(
    folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, names: Sequence[str] = ()
) -> list[Imported]:
    """Copy the raw files of some (default: all) data sets from a mirror into the data root.

    A file is hashed while it is copied next to its place and renamed into it only if the sha256 is the manifest's;
    so it is safe to run twice, and in several processes at once. A file without a known checksum is copied as it is.
    """
    mirror, home = Path(folder).expanduser(), data_root(root)
    if not mirror.is_dir():
        raise DataError(f"the mirror '{mirror}' is not a folder; give the folder that holds Cora/, MUTAG/, …")
    everything = [entry for entry in catalogue().values() if not entry.embedded]
    wanted = [entry for name in names for entry in members(name)] or everything
    files: dict[str, tuple[str, RawFile]] = {}
    for entry in wanted:
        for file in raw_files(entry.name):
            files.setdefault(file.path, (entry.name, file))  # perturbed graphs share their clean one
    for parent in {(home / path).parent for path in files}:
        sweep(parent)
    generated = [Imported(e.name, "", "generated", True, "generated, needs no file") for e in wanted if e.embedded]
    results = [_import(name, file, mirror, home) for name, file in files.values()]
    if results and all(result.state == "missing" for result in results):
        titles = ", ".join(entry.title for entry in wanted)
        raise DataError(f"the mirror '{mirror}' has no file of {titles}; expected for example {results[0].path}")
    return generated + results


def _import(name: str, file: RawFile, mirror: Path, root: Path) -> Imported:
    source = mirror / file.path
    if _holds(root / file.path, file):
        return Imported(name, file.path, "present", file.optional)
    if not source.is_file():
        return Imported(name, file.path, "missing", file.optional, f"{file.path} is not in the mirror '{mirror}'")
    try:
        stream = source.open("rb")
    except OSError as error:
        raise DataError(unreadable_sentence(source, error)) from None
    with stream:
        reason = place(stream, file, root, mirror)
    return Imported(name, file.path, "refused" if reason else "imported", file.optional, reason)


def _holds(target: Path, file: RawFile) -> bool:
    try:
        return target.is_file() and file.sha256 in (None, sha256_of(target))
    except OSError:  # not readable: the copy replaces it
        return False
