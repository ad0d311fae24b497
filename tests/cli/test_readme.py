"""Every command and every piece of Python in the README works as it is written."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rade.train import protocol as packaged

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(name, language):
    return [content for kind, content in BLOCK.findall((ROOT / name).read_text("utf-8")) if kind == language]


def commands(name):
    return [line for block in blocks(name, "") for line in block.splitlines() if line.strip()]


@pytest.fixture
def short(monkeypatch):
    """The embedded data set's protocol with fewer epochs; the commands themselves stay as they are."""
    protocol = {name: dict(section) for name, section in packaged.protocol().items()}
    protocol["csbm"] |= {"epochs": 2, "runs": 2}
    monkeypatch.setattr(packaged, "protocol", lambda source="paper": protocol)


def test_the_readme_has_commands_of_each_kind():
    programs = {shlex.split(command)[0] for command in commands("README.md")}
    assert programs == {"make", "rade", "pip"}


def test_rade_commands_run_as_typed(short, rade, tmp_path):
    """In the order of the README, in one folder: later ones use what earlier ones leave."""
    for command in commands("README.md"):
        program, *arguments = shlex.split(command)
        if program == "rade":
            short = ["--seeds", "2", "--epochs", "5", "--workers", "1"]  # as typed but for the time it takes
            arguments += short if arguments == ["demo"] else []
            code, out, err = rade(*arguments)
            assert (code, err) == (0, ""), command
            assert out
    assert (tmp_path / "predictions.csv").exists()
    assert (tmp_path / "demo/demo.png").exists()
    *_, using_runs = blocks("README.md", "python")
    exec(compile(using_runs, "README.md", "exec"), {})


def test_the_example_prints_an_accuracy_and_the_rates(capsys):
    first, example, _ = blocks("README.md", "python")
    exec(compile(first, "README.md", "exec"), {})
    exec(compile(example, "README.md", "exec"), {})
    accuracy, p, q = map(float, re.findall(r"[\d.]+\d", capsys.readouterr().out))
    assert accuracy > 0.5  # of four classes
    assert p == 0.2
    assert 0 < q < 0.01


def test_the_settings_file_of_the_training_guide_is_valid(tmp_path):
    from rade.train.settings import make_order, read_config

    (content,) = blocks("docs/training.md", "toml")
    (tmp_path / "file.toml").write_text(content)
    assert make_order(read_config(tmp_path / "file.toml")).settings[1].options["share_view"] is False


def test_pictures_of_the_readme_exist_for_light_and_dark():
    text = (ROOT / "README.md").read_text("utf-8")
    named = set(re.findall(r'(?:srcset|src)="([^"]+)"', text))
    assert {name for name in named if "-dark." in name} == {name.replace("-light.", "-dark.") for name in named}
    assert all((ROOT / name).exists() for name in named)


def test_the_readme_is_short():
    """Lines are counted as a reader sees them in a terminal that wraps nothing."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 150
    assert max(len(line) for line in lines if line.startswith("|")) <= 160


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_targets_exist(target):
    """`make` would install and call this very test: what it would do is read from a dry run."""
    assert f"make {target}" in (ROOT / "README.md").read_text("utf-8")
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"demo": "bin/rade demo\n", "test": "bin/pytest"}[target] in done.stdout


def test_installing_works_as_typed():
    """The first line finds what is installed, the second what is here; neither is carried out."""
    lines = [line for line in commands("README.md") if line.startswith("pip")]
    assert [line.split()[-1] for line in lines] == ["torch", "."]
    dry = ["--dry-run", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    for line in lines:
        arguments = [sys.executable, "-m", *shlex.split(line), *dry]
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_links_lead_somewhere():
    pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"]
    for name in pages + [f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / name).read_text("utf-8")):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"
