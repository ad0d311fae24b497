"""The files of a folder of rows: one per run, ``KEY.json`` or, compressed by hand, ``KEY.json.gz``. Without torch."""

import gzip
import zlib
from pathlib import Path

SUFFIXES = (".json", ".json.gz")  # the first wins where both are there


def row_files(folder: Path) -> list[Path]:
    """Every file that may hold a row, in the order of names; of a run that is there twice, the one to read."""
    found: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for path in folder.glob(f"*{suffix}"):
            found.setdefault(path.name.removesuffix(suffix), path)
    return [found[name] for name in sorted(found) if not name.startswith(".")]


def name_of(path: Path) -> str:
    """What a file of rows is called, whether compressed or not."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def content_of(path: Path) -> bytes:
    """The bytes of a row; a ValueError where they cannot be unpacked."""
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        raise ValueError("is torn or not compressed by gzip") from None
