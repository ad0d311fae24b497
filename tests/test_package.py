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


def run(*command, cwd, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean |= {"OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment}
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
    for file in (ROOT / "src").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file):
            (source / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            (source / file.relative_to(ROOT)).write_bytes(file.read_bytes())
    build = f"from setuptools import build_meta as b; b.build_wheel({str(out)!r}); b.build_sdist({str(out)!r})"
    told = run(sys.executable, "-c", f"import sys; sys.stderr = sys.stdout; {build}", cwd=source)
    assert "deprecated" not in told, told
    (wheel,), (archive,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory):
    """The Python of an empty environment with nothing of ours but the wheel; dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet")
    run(*pip, dist[0], cwd=folder)
    # Behind the environment's own folder, and without reading the path files there: an editable install stays unseen.
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def test_the_wheel_and_the_archive_hold_every_file_of_the_package(dist):
    wheel, archive = dist
    expected = {
        str(file.relative_to(ROOT / "src"))
        for file in (ROOT / "src" / "rade").rglob("*")
        if file.is_file() and file.suffix in (".py", ".toml", ".json", ".j2", ".css", ".js", ".typed")
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(archive) as content:
        names = {name.split("/", 1)[-1] for name in content.getnames()}
    assert {f"src/{name}" for name in expected} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt"} <= names
    assert not any("__pycache__" in name for name in names)
    assert "rade/py.typed" in expected


@pytest.mark.slow
def test_the_installed_package_says_its_version_and_runs_the_readme(installed, tmp_path):
    where = run(installed, "-c", "import rade; print(rade.__file__)", cwd=tmp_path)
    assert str(ROOT) not in where
    assert run(installed.parent / "rade", "--version", cwd=tmp_path) == f"rade {rade.__version__}\n"
    text = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    example = next(block for block in blocks if "accuracy" in block)
    (tmp_path / "example.py").write_text(example.replace("range(60)", "range(3)"))
    assert "accuracy 0." in run(installed, "example.py", cwd=tmp_path)


def test_versions_agree():
    project = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[1]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)[1]
    assert project == citation == rade.__version__


def test_the_lowest_versions_are_those_that_are_promised():
    """constraints-oldest.txt tries what pyproject.toml says."""
    text = (ROOT / "pyproject.toml").read_text("utf-8").split("[project.optional-dependencies]")[0]
    oldest = (ROOT / "constraints-oldest.txt").read_text("utf-8")
    promised = dict(re.findall(r'^  "([\w-]+)>=([\d.]+)[";]', text, re.MULTILINE))
    tried = dict(re.findall(r"^([\w-]+)==([\d.]+)$", oldest, re.MULTILINE))
    assert len(promised) >= 9
    for name, lowest in promised.items():
        assert tried[name].removesuffix(".0").startswith(lowest.removesuffix(".0")), name


def test_every_extra_has_exact_versions_in_the_constraints():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = text[text.index("[project.optional-dependencies]") : text.index("[project.scripts]")]
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    names = re.findall(r'"([\w-]+)>=', extras)
    assert len(names) > 15
    assert not [name for name in names if name.lower() not in pinned]
