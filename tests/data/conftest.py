"""A data root with everything that the mirror has; the mirror itself is never written to."""

from pathlib import Path

import pytest

from rade.data.mirror import import_mirror

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "data"


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
