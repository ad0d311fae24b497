"""README and documentation: their Python and their commands work as they are written, and they name what exists.

What they show of stored runs and studies is what our scripts make of them, byte for byte; if it is not, `make report`,
look at what changed, commit it.
"""

import contextlib
import inspect
import json
import re
import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import rade as package
from rade.commands.questions import QUESTIONS
from rade.train import protocol as packaged
from rade.train.settings import BACKBONES, METHODS, make_order
from zoo import normal, random_edges, seeded

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
COPIES = {"changelog.md", "contributing.md", "security.md"}  # of files at the root, made by `make docs`
PAGES = sorted({page.name for page in DOCS.glob("*.md")} - COPIES)
EVERY = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md")]
EVERY += [DOCS / page for page in PAGES]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Long trainings and many processes are cut; the rest of a block runs as it is written.
SHORTER = {
    "epochs=200": "epochs=2", "epochs=30": "epochs=3", "epochs=20": "epochs=2", "seeds=10": "seeds=1",
    "seeds=5": "seeds=2", "workers=None": "workers=1",
    "progress=print)": "training=rade.Training(epochs=2), workers=1)",
}  # fmt: skip


def text_of(name):
    return (ROOT / name).read_text("utf-8")


def blocks(name, language):
    return [content for kind, content in BLOCK.findall(text_of(name)) if kind == language]


def make_net():
    return GCN(8, 6, 2, 3)


def given():
    """What a reader has before the first block: a model, a graph, labels."""
    x, edge_index, y = normal(40, 8), random_edges(40, 80), torch.arange(40) % 3
    parts = {f"{name}_mask": torch.arange(40) % 4 == part for part, name in ((0, "train"), (1, "val"), (2, "test"))}
    data = Data(x=x, edge_index=edge_index, y=y, **parts)
    names = {"net": seeded(make_net), "x": x, "edge_index": edge_index, "y": y, "val": torch.arange(20, 40)}
    return names | {"make_net": make_net, "data": data, "rade": package, "torch": torch}


@pytest.fixture
def short(monkeypatch):
    """The embedded data set's protocol with fewer epochs; the commands themselves stay as they are."""
    protocol = {name: dict(section) for name, section in packaged.protocol().items()}
    protocol["csbm"] |= {"epochs": 2, "runs": 2}
    monkeypatch.setattr(packaged, "protocol", lambda source="paper": protocol)


@pytest.mark.parametrize("page", [name for name in PAGES if blocks(f"docs/{name}", "python")])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    """Its blocks one after the other; those that are a part of an example are run with it, by test_examples.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    example, names = text_of("examples/own_aggregator.py"), given()
    for block in blocks(f"docs/{page}", "python"):
        if block in example or ("import optuna" in block and not find_spec("optuna")):
            continue
        for long, shorter in SHORTER.items():
            block = block.replace(long, shorter)
        exec(compile(block, page, "exec"), names)


def test_the_example_of_the_readme_prints_an_accuracy_and_the_rates(capsys):
    for block in blocks("README.md", "python")[:2]:
        exec(compile(block, "README.md", "exec"), {})
    accuracy, p, q = map(float, re.findall(r"[\d.]+\d", capsys.readouterr().out))
    assert accuracy > 0.5  # of four classes
    assert p == 0.2
    assert 0 < q < 0.01


@pytest.mark.parametrize(
    ("page", "left"), [("README.md", ["predictions.csv", "demo/demo.png"]), ("docs/reproduce.md", ["tutorial-report"])]
)
def test_commands_run_as_typed(page, left, short, rade, tmp_path):
    """In the order of the page, in one folder: later ones use what earlier ones leave."""
    commands = [line for block in blocks(page, "") for line in block.splitlines() if line.strip()]
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "make":
            assert re.search(rf"^{arguments[0]}: ", text_of("Makefile"), re.MULTILINE), command
        elif program == "pip":
            assert arguments[-1] in ("torch", ".")  # tests/test_package.py installs
        else:
            assert program == "rade"
            arguments += ["--seeds", "2", "--epochs", "5", "--workers", "1"] if arguments == ["demo"] else []
            code, out, err = rade(*arguments)
            assert (code, err) == (0, ""), command
            assert out
    assert all((tmp_path / name).exists() for name in left)
    if page == "README.md":
        exec(compile(blocks(page, "python")[-1], page, "exec"), {})  # which uses the runs


def test_the_settings_file_of_the_training_guide_is_valid(tmp_path):
    (content,) = blocks("docs/training.md", "toml")
    (tmp_path / "file.toml").write_text(content)
    assert make_order(packaged.read_toml(tmp_path / "file.toml")).settings[1].options["share_view"] is False


def test_pages_link_to_and_name_what_exists_and_hold_no_gap():
    """Also outside of Sphinx, and files in back-ticks; pictures of the README are there for light and for dark."""
    for page in EVERY:
        text = page.read_text("utf-8")
        assert not re.search(r"@@|@[A-Z]{2,}@|\bTODO\b|\bXXX\b|\{doc\}", text), page.name
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
        for path in re.findall(r"`((?:src|tests|docs(?!/_build)|examples)/[\w/.-]+)`", text):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
    pictures = set(re.findall(r'(?:srcset|src)="([^"]+)"', text_of("README.md")))
    assert {name for name in pictures if "-dark." in name} == {name.replace("-light.", "-dark.") for name in pictures}
    assert all((ROOT / name).exists() for name in pictures)


def test_the_map_of_equations_names_what_exists():
    """Functions in back-ticks or roles that begin with `rade.`, and tests or checks."""
    text = text_of("docs/theory.md")
    named = re.findall(r"`(rade\.[\w.]+)", text)
    assert len(named) > 8
    for name in named:
        value, parts = package, name.split(".")
        for position, part in enumerate(parts[1:], 2):
            with contextlib.suppress(ImportError):  # a module is an attribute once it was imported
                import_module(".".join(parts[:position]))
            value = getattr(value, part)
    everything = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    table = text[text.index("| in the paper |") : text.index("## Moments")]
    for name in re.findall(r"`(test_\w+|\w+_\w+_\w+_\w+)`", table):
        assert name in everything or name in package.testing.CHECKS, name


def test_pages_name_every_method_public_name_and_page():
    assert {*METHODS, *BACKBONES} <= set(re.findall(r"`([\w-]+)`", text_of("docs/training.md")))
    listed = re.findall(r"auto\w+:: rade\.(\w+)$", text_of("docs/api.md"), re.MULTILINE)
    assert set(package.__all__) <= set(listed) & set(dir(package))
    for page in {*PAGES, *COPIES} - {"index.md"}:
        assert re.search(rf"^{Path(page).stem}$", text_of("docs/index.md"), re.MULTILINE), page


def test_defaults_that_are_named_in_prose_are_those_of_the_code():
    """p = ρ = 0.2 of constant rates, 0.5 of the paper's rule, and the arguments of RADE."""
    assert package.RADE(GCN(4, 4, 2, 2)).rade.rule == package.Constant() == package.Constant(0.2, 0.2)
    first = package.GradNorm()
    assert (first.p, first.rho, first.penalty, first.lr) == (0.5, 0.5, 1.0, 1e-3)
    assert all("p = ρ = 0.2" in text_of(page) for page in ("README.md", "docs/wrap.md", "docs/idea.md"))
    arguments = ", ".join(inspect.signature(package.RADE).parameters).replace("variant, ", "variant, *, ")
    assert f"`RADE({arguments})`" in text_of("docs/wrap.md")
    assert "`RADE(model)`" in text_of("docs/results.md")  # constant rates; RADE-OF in its tables is the paper's rule


def test_what_is_to_be_read_is_short():
    """Lines are counted as a reader sees them in a terminal that wraps nothing."""
    lines = text_of("README.md").splitlines()
    assert len(lines) <= 150
    assert max(len(line) for line in lines if line.startswith("|")) <= 160
    assert sum(bool(line.strip()) for line in text_of("examples/own_aggregator.py").splitlines()) <= 60
    assert len(PAGES) <= 15  # the front page among them


def test_every_script_has_its_two_pictures_and_every_picture_a_script():
    """Drawn for light and for dark pages."""
    pictures = {path.stem: path.read_text("utf-8") for path in PICTURES.glob("*.svg")}
    scripts = {path.stem for path in PICTURES.glob("*.py")} - {"style"}
    assert set(pictures) == {f"{name}-{theme}" for name in scripts for theme in ("light", "dark")}
    assert len(set(pictures.values())) == len(pictures)
    for content in pictures.values():
        ElementTree.fromstring(content)
        assert "<text" in content  # words stay words
        assert "dc:date" not in content


def test_the_stored_numbers_of_the_demo_answer_its_questions():
    scores = json.loads((PICTURES / "demo.json").read_text("utf-8"))["scores"]
    assert list(scores) == [question.title for question in QUESTIONS]
    for question in QUESTIONS:
        assert {question.reference, *question.aside} < set(scores[question.title])
        assert {len(values) for values in scores[question.title].values()} == {10}


@pytest.fixture
def script(monkeypatch):
    """A script of the repository as a module."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module


def test_regenerating_the_results_and_the_tables_of_noisy_graphs_changes_nothing(rade, script, tmp_path):
    assert rade("report", ROOT / "results", "--out", tmp_path, "--format", "md")[0] == 0
    for page, content in (script("refresh").pages(tmp_path) | script("benchmarks.draw_noisy").pages()).items():
        assert page.read_text("utf-8") == content, f"{page.name} is not what results/ gives: run `make report`"


def test_the_page_on_rate_rules_is_what_the_store_gives(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rate_rules.py", "--check"])
    with pytest.raises(SystemExit) as stopped:
        script("benchmarks.rate_rules").main()
    assert stopped.value.code == 0


def test_the_table_of_molecules_is_that_of_the_stored_runs(script):
    molhiv = script("benchmarks.molhiv")
    rows = script("benchmarks.study").lines(ROOT / "results/studies/molhiv/molhiv.jsonl")
    assert "\n".join(molhiv.table(rows)) in (ROOT / "docs/layers.md").read_text("utf-8")
