"""Every page of the documentation: its Python and its commands work as they are written, and it names what exists."""

import contextlib
import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import rade as package
from rade.cli import main
from zoo import normal, random_edges, seeded

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COPIES = {"changelog.md", "contributing.md", "security.md"}  # of files at the root, made by `make docs`
PAGES = sorted({page.name for page in DOCS.glob("*.md")} - COPIES)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Long trainings and many processes are cut; the rest of a block runs as it is written.
SHORTER = {
    "epochs=200": "epochs=2", "epochs=30": "epochs=3", "epochs=20": "epochs=2", "seeds=10": "seeds=1",
    "seeds=5": "seeds=2", "workers=None": "workers=1",
    "progress=print)": "training=rade.Training(epochs=2), workers=1)",
}  # fmt: skip


def blocks(name, language):
    return [content for kind, content in BLOCK.findall((DOCS / name).read_text("utf-8")) if kind == language]


def make_net():
    return GCN(8, 6, 2, 3)


def given():
    """What a reader has before the first block: a model, a graph, labels."""
    x, edge_index, y = normal(40, 8), random_edges(40, 80), torch.arange(40) % 3
    parts = {f"{name}_mask": torch.arange(40) % 4 == part for part, name in ((0, "train"), (1, "val"), (2, "test"))}
    data = Data(x=x, edge_index=edge_index, y=y, **parts)
    names = {"net": seeded(make_net), "x": x, "edge_index": edge_index, "y": y, "val": torch.arange(20, 40)}
    return names | {"make_net": make_net, "data": data, "rade": package, "torch": torch}


@pytest.mark.parametrize("page", [name for name in PAGES if blocks(name, "python")])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    """Its blocks one after the other; those that are a part of an example are run with it, by test_examples.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    example = (ROOT / "examples" / "own_aggregator.py").read_text("utf-8")
    names = given()
    for block in blocks(page, "python"):
        if block in example or ("import optuna" in block and not find_spec("optuna")):
            continue
        for long, short in SHORTER.items():
            block = block.replace(long, short)
        exec(compile(block, page, "exec"), names)


def test_the_tutorial_on_wrapping_prints_what_it_says(capsys):
    names = {}
    for piece in blocks("wrap.md", "python")[:5]:
        exec(compile(piece.replace("epochs=30", "epochs=3"), "wrap.md", "exec"), names)
    out = capsys.readouterr().out
    for words in ("GCNConv: by moments", "Rates(p=", "conv2 keeps", "against none  95 % interval", "rade-of "):
        assert words in out


def test_an_aggregator_of_ones_own_is_short():
    example = (ROOT / "examples" / "own_aggregator.py").read_text("utf-8")
    assert sum(bool(line.strip()) for line in example.splitlines()) <= 60


def test_links_between_pages_work_outside_of_sphinx():
    for page in PAGES:
        assert "{doc}" not in (DOCS / page).read_text("utf-8"), page


def test_the_commands_of_the_guide_to_tables_run(tmp_path, monkeypatch, capsys):
    from rade.train import protocol as packaged

    protocol = {name: dict(section) for name, section in packaged.protocol().items()}
    protocol["csbm"] |= {"epochs": 2}
    monkeypatch.setattr(packaged, "protocol", lambda source="paper": protocol)
    monkeypatch.chdir(tmp_path)
    (commands,) = blocks("reproduce.md", "")
    for command in commands.splitlines():
        assert command.startswith("rade ")
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(command)[1:])
        assert stopped.value.code == 0, (command, capsys.readouterr())
    assert (tmp_path / "tutorial-report/results.md").exists()


def test_functions_that_the_map_of_equations_names_exist():
    """Names in back-ticks or roles that begin with `rade.`."""
    text = (DOCS / "theory.md").read_text("utf-8")
    named = re.findall(r"`(rade\.[\w.]+)", text)
    assert len(named) > 10
    for name in named:
        value, parts = package, name.split(".")
        for position, part in enumerate(parts[1:], 2):
            with contextlib.suppress(ImportError):  # a module is an attribute once it was imported
                import_module(".".join(parts[:position]))
            value = getattr(value, part)


def test_tests_that_the_map_of_equations_names_exist():
    text = (DOCS / "theory.md").read_text("utf-8")
    paths = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(paths) > 8
    assert not [path for path in paths if not (ROOT / path).exists()]
    everything = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    table = text[text.index("| in the paper |") : text.index("## Moments")]
    for name in re.findall(r"`(test_\w+|\w+_\w+_\w+_\w+)`", table):
        assert name in everything or name in package.testing.CHECKS, name


def test_the_guide_to_training_names_every_method_and_backbone():
    from rade.train.settings import BACKBONES, METHODS

    assert {*METHODS, *BACKBONES} <= set(re.findall(r"`([\w-]+)`", (DOCS / "training.md").read_text("utf-8")))


def test_the_pages_are_few_and_each_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text("utf-8")
    assert len(PAGES) <= 15  # the front page among them
    for page in {*PAGES, *COPIES} - {"index.md"}:
        assert re.search(rf"^{Path(page).stem}$", index, re.MULTILINE), page
