"""What all sources hold to: imports point one way, from a folder to those before it; public methods are explained."""

import ast
from pathlib import Path

import rade

SOURCE = Path(__file__).parents[1] / "src" / "rade"
# Modules and folders of `rade` from the ground up.
ORDER = (
    *("errors", "runtime", "statistics", "graph", "distribution", "views", "sums", "moments", "correction", "nn"),
    *("rates", "wrapper", "noise", "testing", "data", "train", "experiment", "report", "compare", "comparison"),
    *("diagnose", "commands", "cli", "__main__"),
)
RANK = {name: rank for rank, name in enumerate(ORDER)}
# Around the core, its public names may be imported from `rade` itself: the modules that define them are its own affair.
AROUND = ORDER[ORDER.index("train") :]
DATA_MAY_KNOW = {"data", "errors", "runtime", "graph"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def home(path: Path) -> str:
    """The module or folder right under `rade` that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """What right under `rade` a file imports, at its top, in its functions or for its types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they point"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("rade.")}
    return found


def test_imports_point_down():
    for path in FILES:
        folder, found = home(path), imported(path)
        assert folder in RANK, "give a new module or folder its place in ORDER"
        public = set(rade.__all__) - {"Comparison", "Training", "compare"} if folder in AROUND else set()
        for name in found - {folder} - public:
            assert name in RANK, f"{path} imports rade.{name}: import public names from the module that defines them"
            assert RANK[name] < RANK[folder], f"{path} must not know rade.{name}"
        assert folder != "data" or found <= DATA_MAY_KNOW, path


def test_every_public_method_is_explained_somewhere():
    """By itself, or by what it overrides: of the package, or of torch, PyG and io. Ruff's D102 cannot tell these."""
    methods = [
        (f"{path.relative_to(SOURCE)}: {kind.name}", part)
        for path in FILES
        for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(kind, ast.ClassDef)
        for part in kind.body
        if isinstance(part, ast.FunctionDef)
    ]
    explained = {part.name for _, part in methods if ast.get_docstring(part)}
    assert len(explained) > 200
    explained |= {"forward", "reset_parameters", "state_dict", "load_state_dict", "writable", "fileno"}
    public = [(place, part.name) for place, part in methods if not (": _" in place or part.name.startswith("_"))]
    assert [one for one in public if one[1] not in explained] == []
