"""A data folder with what the mirror has; as its README says, Flickr and ogbn-arxiv lack their features there."""

import socket
from pathlib import Path

import pytest

from rade.data.files import import_mirror

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A test that forgets download=False or its stub fails here, before any host is asked for."""
    look_up = socket.getaddrinfo

    def local_only(host, *arguments, **options):
        if host not in (None, "localhost", "127.0.0.1", "::1"):
            raise OSError(f"tests must not use the network, but asked for {host}")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", local_only)


@pytest.fixture(scope="session")
def mirror():
    if not MIRROR.is_dir():
        pytest.skip("the data mirror ../shared/data is absent")
    return MIRROR


@pytest.fixture(scope="session")
def root(mirror, tmp_path_factory):
    """Imported once per session; tests that change files make a folder of their own."""
    place = tmp_path_factory.mktemp("data")
    import_mirror(mirror, place)
    return place
