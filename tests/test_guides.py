"""The Python and the commands of the tutorials work as they stand, one after the other."""

import contextlib
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import rade as package
from rade.cli import main

DOCS = Path(__file__).parents[1] / "docs"


def blocks(name, language):
    text = (DOCS / name).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_tutorial_on_wrapping_runs(capsys):
    names = {}
    pieces = blocks("tutorial-wrap.md", "python")
    assert len(pieces) == 5
    for piece in pieces:
        exec(compile(piece.replace("epochs=30", "epochs=3"), "tutorial-wrap.md", "exec"), names)
    out = capsys.readouterr().out
    for words in ("GCNConv: by moments", "Rates(p=", "conv2 keeps", "against none  95 % interval", "rade-of "):
        assert words in out


def test_the_tutorial_on_aggregators_shows_what_the_example_does():
    """Its blocks are parts of the example, which a test runs."""
    pieces = blocks("tutorial-aggregator.md", "python")
    example = (DOCS.parent / "examples" / "own_aggregator.py").read_text("utf-8")
    assert len(pieces) == 4
    assert all(piece in example for piece in pieces)
    classes = [piece.splitlines() for piece in (pieces[1], pieces[3])]
    assert sum(len([line for line in lines if line.strip()]) for lines in classes) <= 60  # what one must write


def test_links_between_pages_work_outside_of_sphinx():
    for page in DOCS.glob("*.md"):
        assert "{doc}" not in page.read_text("utf-8"), page.name


def test_the_commands_of_the_tutorial_on_tables_run(tmp_path, monkeypatch, capsys):
    from rade.train import protocol as packaged

    protocol = {name: dict(section) for name, section in packaged.protocol().items()}
    protocol["csbm"] |= {"epochs": 2}
    monkeypatch.setattr(packaged, "protocol", lambda source="paper": protocol)
    monkeypatch.chdir(tmp_path)
    (commands,) = blocks("tutorial-reproduce.md", "")
    for command in commands.splitlines():
        assert command.startswith("rade ")
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(command)[1:])
        assert stopped.value.code == 0, (command, capsys.readouterr())
    assert (tmp_path / "tutorial-report/results.md").exists()


def test_the_recipe_for_tuning_runs(capsys):
    pytest.importorskip("optuna")
    (piece,) = blocks("tuning.md", "python")
    exec(compile(piece.replace("epochs=20", "epochs=2"), "tuning.md", "exec"), {})
    assert "validation 0." in capsys.readouterr().out


def test_functions_that_the_map_of_equations_names_exist():
    """Names in back-ticks or roles that begin with `rade.`."""
    text = (DOCS / "mathematics.md").read_text("utf-8")
    named = re.findall(r"`(rade\.[\w.]+)", text)
    assert len(named) > 10
    for name in named:
        value, parts = package, name.split(".")
        for position, part in enumerate(parts[1:], 2):
            with contextlib.suppress(ImportError):  # a module is an attribute once it was imported
                import_module(".".join(parts[:position]))
            value = getattr(value, part)


def test_tests_that_the_map_of_equations_names_exist():
    text = (DOCS / "mathematics.md").read_text("utf-8")
    root = DOCS.parent
    paths = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(paths) > 8
    assert not [path for path in paths if not (root / path).exists()]
    everything = "".join(file.read_text("utf-8") for file in (root / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+|\w+_\w+_\w+_\w+)`", text):
        assert name in everything or name in package.testing.CHECKS, name


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text("utf-8")
    generated = {"changelog", "contributing", "security"}
    for page in {file.stem for file in DOCS.glob("*.md")} - {"index"} | generated:
        assert re.search(rf"^{page}$", index, re.MULTILINE), page
