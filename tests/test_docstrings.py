"""Public methods say what they do, unless they override one that does: what ruff's D102 cannot tell apart."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rade"
METHODS = [
    (f"{path.relative_to(SOURCE)}: {kind.name}", part)
    for path in SOURCE.rglob("*.py")
    for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(kind, ast.ClassDef)
    for part in kind.body
    if isinstance(part, ast.FunctionDef)
]
# By a base class or protocol of the package, or of torch, PyG and io.
EXPLAINED = {part.name for _, part in METHODS if ast.get_docstring(part)}
EXPLAINED |= {"forward", "reset_parameters", "state_dict", "load_state_dict", "writable", "fileno"}


def test_every_public_method_is_explained_somewhere():
    assert len(EXPLAINED) > 200
    public = [(place, part.name) for place, part in METHODS if not (": _" in place or part.name.startswith("_"))]
    assert [one for one in public if one[1] not in EXPLAINED] == []
