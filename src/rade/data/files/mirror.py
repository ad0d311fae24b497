"""Offline mirrors: copy raw files into the data root, each checked before it is put in place."""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rade.data.catalogue import catalogue, resolve
from rade.data.errors import DataError
from rade.data.files.manifest import PIECE, RawFile, raw_files, sha256_of
from rade.data.files.raw import altered_sentence
from rade.data.files.root import data_root

State = Literal["imported", "present", "missing", "refused"]


@dataclass(frozen=True)
class Imported:
    """What happened to one file: copied, there already, absent from the mirror, or refused for a reason."""

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
    mirror, place = Path(folder), data_root(root)
    if not mirror.is_dir():
        raise DataError(f"the mirror '{mirror}' is not a folder; give the folder that holds Cora/, MUTAG/, …")
    wanted = [resolve(name) for name in names] or [entry for entry in catalogue().values() if not entry.embedded]
    results = [_import(entry.name, file, mirror, place) for entry in wanted for file in raw_files(entry.name)]
    if results and all(result.state == "missing" for result in results):
        titles = ", ".join(entry.title for entry in wanted)
        raise DataError(f"the mirror '{mirror}' has no file of {titles}; expected for example {results[0].path}")
    return results


def _import(name: str, file: RawFile, mirror: Path, root: Path) -> Imported:
    source, target = mirror / file.path, root / file.path
    if _holds(target, file):
        return Imported(name, file.path, "present", file.optional)
    if not source.is_file():
        return Imported(name, file.path, "missing", file.optional, f"{file.path} is not in the mirror '{mirror}'")
    reason = _copy(source, target, file, mirror)
    return Imported(name, file.path, "refused" if reason else "imported", file.optional, reason)


def _holds(target: Path, file: RawFile) -> bool:
    return target.is_file() and file.sha256 in (None, sha256_of(target))


def _copy(source: Path, target: Path, file: RawFile, mirror: Path) -> str:
    """Copy and check; the reason if it was refused."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.NamedTemporaryFile(dir=target.parent, prefix=".import-", delete=False)  # noqa: SIM115
    except OSError as error:
        sentence = f"cannot write to {target.parent}: {error.strerror}; choose another data folder with --data-root"
        raise DataError(sentence) from None
    digest = hashlib.sha256()
    with temporary:
        try:
            with source.open("rb") as stream:
                while piece := stream.read(PIECE):
                    digest.update(piece)
                    temporary.write(piece)
            size = temporary.tell()
            temporary.close()
            if file.sha256 not in (None, digest.hexdigest()):
                return altered_sentence(file, digest.hexdigest(), size, mirror)
            os.chmod(temporary.name, 0o644)  # temporary files are private; a shared data root is read by others
            os.replace(temporary.name, target)
            return ""
        finally:
            Path(temporary.name).unlink(missing_ok=True)
