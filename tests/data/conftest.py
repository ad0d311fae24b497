"""A data root with what the mirror has, less two files; the mirror itself is never written to."""

import socket
from pathlib import Path
from typing import Any

import pytest
from data_facts import WITHHELD

from rade.data.catalogue import catalogue
from rade.data.files.manifest import raw_files
from rade.data.files.mirror import import_mirror

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that forgets download=False or its stub fails here, before any host is asked for."""
    look_up = socket.getaddrinfo

    def local_only(host: Any, *arguments: Any, **options: Any) -> Any:
        if host not in (None, "localhost", "127.0.0.1", "::1"):
            raise OSError(f"tests must not use the network, but asked for {host}")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", local_only)


@pytest.fixture(scope="session")
def mirror() -> Path:
    if not MIRROR.is_dir():
        pytest.skip("the data mirror ../shared/data is absent")
    return MIRROR


@pytest.fixture(scope="session")
def gaps(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to the mirror but for two withheld files: what is missing is known, whatever the mirror holds."""
    place = tmp_path_factory.mktemp("mirror")
    for file in {file for entry in catalogue().values() for file in raw_files(entry.name)}:
        if (mirror / file.path).is_file() and file.path not in WITHHELD.values():
            (place / file.path).parent.mkdir(parents=True, exist_ok=True)
            (place / file.path).symlink_to(mirror / file.path)
    return place


@pytest.fixture(scope="session")
def root(gaps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported once per session; tests that change files make a root of their own."""
    place = tmp_path_factory.mktemp("data")
    import_mirror(gaps, place)
    return place
