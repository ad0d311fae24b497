"""Public methods say what they do, unless they override one that does: what ruff's D102 cannot tell apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rade"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def methods(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    for kind in ast.walk(tree):
        if isinstance(kind, ast.ClassDef):
            yield from ((kind, part) for part in kind.body if isinstance(part, ast.FunctionDef))


def documented() -> set[str]:
    """Names of the methods that some base class or protocol of the package, or of torch, PyG and io, explains."""
    own = {part.name for tree in TREES.values() for _, part in methods(tree) if ast.get_docstring(part)}
    return own | {"forward", "reset_parameters", "state_dict", "load_state_dict", "writable", "fileno"}


def test_every_public_method_is_explained_somewhere():
    known = documented()
    assert len(known) > 200
    silent = [
        f"{path.relative_to(SOURCE)}: {kind.name}.{part.name}"
        for path, tree in TREES.items()
        for kind, part in methods(tree)
        if not part.name.startswith("_") and not kind.name.startswith("_")
        if ast.get_docstring(part) is None and part.name not in known
    ]
    assert silent == []
