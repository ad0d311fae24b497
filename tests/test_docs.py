"""Every public name says what it is."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from torch_geometric.nn import GCN

import rade

FOLDERS = ("data", "graph", "moments", "nn", "testing")
MODULES = ("rade", *(f"rade.{name}" for name in FOLDERS))
PUBLIC = [(module, name) for module in MODULES for name in import_module(module).__all__]


def own_methods(value: Any) -> list[tuple[str, Any]]:
    """Public methods and properties that a class of ours defines itself; PyG generates further ones at run time."""
    found = []
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isroutine(function) and function.__module__ == value.__module__:
            found.append((name, function))
    return found


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_public_names_have_docstrings(module, name):
    value = getattr(import_module(module), name)
    assert vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__, f"{module}.{name} has no docstring"
    if inspect.isclass(value):
        silent = [method for method, member in own_methods(value) if not inspect.getdoc(getattr(value, method))]
        assert not silent, f"{module}.{name}: {', '.join(silent)} without a docstring"


@pytest.mark.parametrize("name", ["Normalised", "Attention", "Coefficients"])
def test_aggregators_give_their_formula(name):
    doc = inspect.getdoc(getattr(import_module("rade.moments"), name)) or ""
    assert "α" in doc or "attention" in doc.lower()
    assert "E[α'" in doc or "Appendix" in doc or "Def." in doc


def test_defaults_that_are_named_in_prose_are_those_of_the_code():
    """p = ρ = 0.2 of constant rates, 0.5 of the paper's rule, and the arguments of RADE."""
    assert (rade.Constant().p, rade.Constant().rho) == (0.2, 0.2)
    assert rade.RADE(GCN(4, 4, 2, 2)).rade.rule == rade.Constant(0.2, 0.2)
    first = rade.GradNorm()
    assert (first.p, first.rho, first.penalty, first.lr) == (0.5, 0.5, 1.0, 1e-3)
    root = Path(__file__).parents[1]
    pages = {page: (root / page).read_text("utf-8") for page in ("README.md", "docs/wrap.md", "docs/idea.md")}
    assert all("p = ρ = 0.2" in text for text in pages.values())
    arguments = ", ".join(inspect.signature(rade.RADE).parameters).replace("variant, ", "variant, *, ")
    assert f"`RADE({arguments})`" in pages["docs/wrap.md"]


def test_tables_of_the_pages_use_the_names_that_are_explained():
    """Constant rates are "RADE(model)"; RADE-OF and RADE-OFS in tables are the paper's rule."""
    text = (Path(__file__).parents[1] / "docs" / "results.md").read_text("utf-8")
    assert "**Names.**" in text
    assert "`RADE(model)`" in text


def test_files_that_the_guide_for_contributors_names_exist():
    """Paths in back-ticks that begin with src/, tests/, docs/ or examples/."""
    root = Path(__file__).parents[1]
    named = re.findall(r"`((?:src|tests|docs|examples)/[\w/.-]+)`", (root / "CONTRIBUTING.md").read_text("utf-8"))
    assert len(named) > 20
    assert not [path for path in named if not (root / path).exists()]


def test_all_lists_what_exists():
    for name in rade.__all__:
        assert getattr(rade, name) is not None
    assert set(rade.__all__) <= set(dir(rade))


def test_the_reference_lists_every_public_name():
    listed = re.findall(
        r"auto\w+:: rade\.(\w+)$", (Path(__file__).parents[1] / "docs/api.md").read_text("utf-8"), re.MULTILINE
    )
    assert set(rade.__all__) <= set(listed)


def test_pages_hold_no_gap_that_was_to_be_filled():
    root = Path(__file__).parents[1]
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md"), *(root / "examples").glob("*.md")]
    gaps = [page.name for page in pages if re.search(r"@@|@[A-Z]{2,}@|\bTODO\b|\bXXX\b", page.read_text("utf-8"))]
    assert len(pages) > 15
    assert not gaps
