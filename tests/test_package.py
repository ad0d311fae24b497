"""What is released: a wheel and a source archive that install into an empty environment and work from elsewhere."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import rade

ROOT = Path(__file__).parents[1]
SOURCES = [path for path in (ROOT / "src/rade").rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def run(*command, cwd):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean |= {"OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Wheel and source archive, built by the backend itself from a copy of the sources: no network, no leftovers."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "constraints.txt"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for file in SOURCES:
        (source / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        (source / file.relative_to(ROOT)).write_bytes(file.read_bytes())
    build = f"from setuptools import build_meta as b; b.build_wheel({str(out)!r}); b.build_sdist({str(out)!r})"
    told = run(sys.executable, "-c", f"import sys; sys.stderr = sys.stdout; {build}", cwd=source)
    assert "deprecated" not in told, told
    (wheel,), (archive,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, archive


def test_the_wheel_and_the_archive_hold_every_file_of_the_package(dist):
    wheel, archive = dist
    kinds = (".py", ".toml", ".json", ".j2", ".css", ".js", ".typed")
    expected = {str(path.relative_to(ROOT / "src")) for path in SOURCES if path.suffix in kinds}
    assert "rade/py.typed" in expected
    assert expected <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(archive) as content:
        names = {name.split("/", 1)[-1] for name in content.getnames()}
    assert {f"src/{name}" for name in expected} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt"} <= names
    assert not any("__pycache__" in name for name in names)


@pytest.mark.slow
def test_the_installed_package_says_its_version_and_lists_data_sets(dist, tmp_path):
    """In an empty environment with nothing of ours but the wheel; dependencies are those of the tests."""
    venv.create(tmp_path / "environment", with_pip=False)
    python = tmp_path / "environment/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet")
    run(*pip, dist[0], cwd=tmp_path)
    # Behind the environment's own folder, and without reading the path files there: an editable install stays unseen.
    (site,) = tmp_path.glob("environment/lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    assert str(site) in run(python, "-c", "import rade; print(rade.__file__)", cwd=tmp_path)
    assert run(python.with_name("rade"), "--version", cwd=tmp_path) == f"rade {rade.__version__}\n"
    assert "csbm" in run(python.with_name("rade"), "datasets", cwd=tmp_path)


def test_versions_agree():
    """Of the package everywhere; constraints-oldest.txt tries what pyproject.toml promises, constraints.txt pins it."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)[1]
    assert re.search(r'^version = "(.+)"', text, re.MULTILINE)[1] == citation == rade.__version__
    needed, extras = text[: text.index("[project.scripts]")].split("[project.optional-dependencies]")
    tried, pinned = (
        dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE))
        for name in ("constraints-oldest.txt", "constraints.txt")
    )
    promised = dict(re.findall(r'^  "([\w-]+)>=([\d.]+)[";]', needed, re.MULTILINE))
    for name, lowest in promised.items():
        assert tried[name].removesuffix(".0").startswith(lowest.removesuffix(".0")), name
    names = re.findall(r'"([\w-]+)>=', extras)
    assert min(len(promised), len(names)) >= 9
    assert not [name for name in names if name.lower() not in {known.lower() for known in pinned}]
