"""Imports point one way: every module knows only those before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rade"

# Modules and packages of `rade` from the ground up; those of one line do not know each other.
LAYERS = [
    ["errors"],
    ["sparse"],
    ["pairs"],
    ["graph"],
    ["view"],
    ["operator"],
    ["moments"],
    ["correction"],
    ["variance"],
    ["features"],
    ["nn"],
    ["conversion", "arguments", "reuse", "randomness", "labelled", "regulariser"],
    ["last_layer"],
    ["diagnostics", "control"],
    ["module"],
    ["data", "metrics", "augment"],
    ["train"],
    ["experiment"],
    ["bench"],
    ["report"],
    ["commands"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
DATA_MAY_KNOW = {"data", "errors", "graph"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def home(path: Path) -> str:
    """The module or package right under `rade` that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The modules and packages right under `rade` that a file imports, at its top or in its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they point"
            names = [f"rade.{alias.name}" for alias in node.names] if node.module == "rade" else [node.module or ""]
        found |= {name.split(".")[1] for name in names if name.startswith("rade.")}
    return found


def test_the_table_names_every_module():
    assert {home(path) for path in FILES} <= set(RANK), "give a new module its place in LAYERS"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    own = home(path)
    for name in imported(path) - {own}:
        assert name in RANK, f"{path.name} imports rade.{name}: import public names from the module that defines them"
        assert RANK[name] < RANK[own], f"rade.{own} must not know rade.{name}"


@pytest.mark.parametrize("path", [path for path in FILES if home(path) == "data"], ids=lambda path: path.name)
def test_data_knows_graphs_only(path):
    assert imported(path) <= DATA_MAY_KNOW


def test_the_library_does_not_print():
    """The command line does."""
    for path in FILES:
        if home(path) in ("commands", "cli", "__main__"):
            continue
        calls = (
            node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        )
        assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls), path
