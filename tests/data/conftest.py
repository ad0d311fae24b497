"""A data root with everything that the mirror has; the mirror itself is never written to."""

import socket
from pathlib import Path
from typing import Any

import pytest

from rade.data.mirror import import_mirror

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
def root(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported once per session; tests that change files make a root of their own."""
    place = tmp_path_factory.mktemp("data")
    import_mirror(mirror, place)
    return place
