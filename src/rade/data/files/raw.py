"""Raw files, handed out only after their checksum matched the manifest."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rade.data.catalogue import Entry
from rade.data.errors import DataError
from rade.data.files.manifest import RawFile, raw_files, required_files, sha256_of


@dataclass(frozen=True)
class RawFolder:
    """The raw files of one data set below a data root.

    With ``verify=False`` bytes other than the manifest's are accepted, except where a file holds a pickle.
    ``seen`` collects the sha256 of everything that was read: the data set's provenance.
    """

    root: Path
    entry: Entry
    verify: bool = True
    seen: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """The content of a file; what was checked is what is returned, not a second look at the disk."""
        fact = self._fact(path)
        place = self._place(fact)
        try:
            content = place.read_bytes()
        except OSError as error:
            raise DataError(unreadable_sentence(place, error)) from None
        self._accept(fact, hashlib.sha256(content).hexdigest(), len(content))
        return content

    def checked(self, path: str) -> Path:
        """The place of a checked file that is too large to be read at once; never for pickles."""
        fact = self._fact(path)
        assert not fact.pickled
        place = self._place(fact)
        try:
            self._accept(fact, sha256_of(place), place.stat().st_size)
        except OSError as error:
            raise DataError(unreadable_sentence(place, error)) from None
        return place

    def fingerprint(self) -> str:
        """Changes whenever a required raw file is replaced; cheap, because it reads none of them."""
        stats = [(file.path, self._place(file).stat()) for file in required_files(self.entry.name)]
        return repr([(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats] + [self.verify])

    def _files(self) -> tuple[RawFile, ...]:
        return raw_files(self.entry.name)

    def _fact(self, path: str) -> RawFile:
        full = f"{self.entry.folder}/{path}"
        return next(file for file in self._files() if file.path == full)

    def _place(self, fact: RawFile) -> Path:
        place = self.root / fact.path
        if not place.is_file():
            raise DataError(missing_sentence(self.entry, self.root, [fact.path]))
        return place

    def _accept(self, fact: RawFile, sha256: str, size: int) -> None:
        self.seen[fact.path] = sha256
        trusted = fact.sha256 in (None, sha256) or fact.repacked or not (self.verify or fact.pickled)
        if not trusted:
            raise DataError(altered_sentence(fact, sha256, size, self.root))


def missing_sentence(entry: Entry, root: Path, paths: Sequence[str]) -> str:
    """What to say when raw files are absent."""
    files = ", ".join(paths)
    return (
        f"{entry.title} needs {files} below the data root '{root}', and it is not there; "
        f"put it there, or run `rade datasets import DIR` with a mirror that has it"
    )


def unreadable_sentence(place: Path, error: OSError) -> str:
    """What to say when a file is there and cannot be read."""
    return f"cannot read {place}: {error.strerror or error}; make it readable, or use another folder"


def altered_sentence(fact: RawFile, sha256: str, size: int, root: object) -> str:
    """What to say when the bytes of a raw file are not the manifest's."""
    kind = "truncated" if fact.bytes is not None and size < fact.bytes else "altered"
    return (
        f"{fact.path} below '{root}' is {kind}: expected {fact.bytes} bytes with sha256 {str(fact.sha256)[:12]}…, "
        f"got {size} bytes with {sha256[:12]}…; it was not used, delete it and import or download it again"
    )
