"""A data folder with what the mirror has, less two files; the mirror itself is never written to."""

import socket
from pathlib import Path

import pytest

from rade.data.catalogue import catalogue
from rade.data.fetching import import_mirror
from rade.data.files import raw_files

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "data"
WITHHELD = {"flickr": "Flickr/raw/feats.npy", "ogbn-arxiv": "ogbn_arxiv/raw/node-feat.csv.gz"}


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
def gaps(mirror, tmp_path_factory):
    """Links to the mirror but for two withheld files: what is missing is known, whatever the mirror holds."""
    place = tmp_path_factory.mktemp("mirror")
    for path in {file.path for entry in catalogue().values() for file in raw_files(entry.name)}:
        if (mirror / path).is_file() and path not in WITHHELD.values():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).symlink_to(mirror / path)
    return place


@pytest.fixture(scope="session")
def root(gaps, tmp_path_factory):
    """Imported once per session; tests that change files make a folder of their own."""
    place = tmp_path_factory.mktemp("data")
    import_mirror(gaps, place)
    return place
