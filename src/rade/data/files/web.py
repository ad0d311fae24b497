"""One address on the web: opened over https only, and given up soon where nobody answers."""

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from rade.data.catalogue import Entry
from rade.data.files.manifest import RawFile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATIENCE = 10.0  # seconds without an answer, or without a byte of a file


@dataclass(frozen=True)
class Source:
    """Where the files of a data set are; the fields are those of ``sources.toml``."""

    url: str = ""
    files: dict[str, str] = field(default_factory=dict)
    archive: str = ""
    inside: str = ""
    members: tuple[str, ...] = ()

    def address(self, entry: Entry, file: RawFile) -> str:
        """The address of a file that is not in an archive."""
        place = Path(file.path)
        return _filled(self.files.get(place.name) or self.files.get(place.parent.name) or self.url, entry, file)

    def member(self, entry: Entry, file: RawFile) -> str:
        """The name of a file inside the archive."""
        return _filled(self.inside, entry, file)


def source_of(entry: Entry) -> Source:
    """The source of a data set: its own, or that of its family."""
    return _sources().get(entry.name) or _sources()[entry.family]


def open_url(url: str) -> IO[bytes]:
    """The content behind an address; asked for in a thread, because no time limit holds for looking up a name."""
    answers: Queue[Any] = Queue()

    def ask() -> None:
        try:
            answers.put(_opener().open(url, timeout=PATIENCE))
        except Exception as reason:
            answers.put(reason)

    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=PATIENCE)
    except Empty:
        raise URLError(f"no answer from {urlsplit(url).hostname} within {PATIENCE:g} s") from None
    if isinstance(answer, Exception):
        raise answer
    stream: IO[bytes] = answer
    return stream


class _OnlyHttps(HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != "https":
            raise URLError(f"{req.full_url} leads to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@cache
def _opener() -> Any:
    return build_opener(_OnlyHttps)


@cache
def _sources() -> dict[str, Source]:
    facts = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
    return {name: Source(**fields | {"members": tuple(fields.get("members", ()))}) for name, fields in facts.items()}


def _filled(template: str, entry: Entry, file: RawFile) -> str:
    path = file.path.removeprefix(f"{entry.folder}/")
    return template.format(folder=entry.folder, path=path, file=Path(path).name)
