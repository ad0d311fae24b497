"""Imports point one way: every module knows only those before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rade
from looping import looped

SOURCE = Path(__file__).parents[1] / "src" / "rade"

# Modules and packages of `rade` from the ground up; those of one line do not know each other. Checks of aggregators
# ask for the variance of logits, so `testing` stands above `control`.
LAYERS = [
    ["errors", "memory", "distributed", "statistics"],
    ["graph"],
    ["view"],
    ["moments"],
    ["correction"],
    ["control", "nn"],
    ["testing"],
    ["wrapper"],
    ["noise"],
    ["data"],
    ["train"],
    ["experiment", "diagnose"],
    ["report"],
    ["comparison"],
    ["commands"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Inside a package, a file may import those that stand before it; the packages' own `__init__` may import all.
SIBLINGS = {
    "graph": "nodes sparse pairs directions adjacency graph messages constant kernels operator edge_operator build",
    "view": "rates trust drawn law observed view rows sampling randomness laws",
    "moments": "base inverse degrees denoising sum symmetric mean weighted weighted_degrees weighted_symmetric "
    "monte_carlo attention",
    "control": "labelled curvature variance pooled readout regulariser gradients evidence rules noise_ratio training "
    "state recording all_layers",
    "wrapper": "checks rounded call conversion running clean latest doubts rate_step inference explain noise "
    "uncertainty settings stand_in module inspection",
    "noise": "similarity two_groups evidence edges hidden every shares guesses estimate",
    "testing": "oracle aggregators cases expectations variances symmetries checks",
}
# Above the core, its public names may be imported from `rade` itself: the modules that define them are its own affair.
AROUND = {"train", "experiment", "bench", "diagnose", "report", "comparison", "commands"}
DATA_MAY_KNOW = {"data", "errors", "memory", "graph"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
ORDERED = [path for path in FILES if path.relative_to(SOURCE).parts[0] in SIBLINGS and path.name != "__init__.py"]


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def home(path: Path) -> str:
    """The module or package right under `rade` that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a file but those under ``if TYPE_CHECKING:``, which no program executes."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for other in node.orelse:
            yield from statements(other)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from statements(child)


def imported(path: Path) -> set[tuple[str, ...]]:
    """Modules under `rade` that a file imports, at its top or in its functions, as paths: ("graph", "sparse")."""
    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they point"
            # `from rade.testing import oracle` imports a module, `from rade.graph import Graph` does not.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {tuple(name.split(".")[1:]) for name in names if name.startswith("rade.")}
    return found


def packages(path: Path) -> set[str]:
    return {parts[0] for parts in imported(path)}


def test_the_tables_name_every_module():
    assert {home(path) for path in FILES} <= set(RANK), "give a new module its place in LAYERS"
    for folder, names in SIBLINGS.items():
        inside = {path.name.removesuffix(".py") for path in (SOURCE / folder).iterdir() if path.name[0] != "_"}
        assert inside == set(names.split()), f"give a new module of rade.{folder} its place in SIBLINGS"


@looped("path", FILES, ids=name_of)
def test_imports_point_down(path):
    own = home(path)
    public = set(rade.__all__) - {"Comparison", "Training", "compare"} if own in AROUND else set()
    for name in packages(path) - {own} - public:
        assert name in RANK, f"{path.name} imports rade.{name}: import public names from the module that defines them"
        assert RANK[name] < RANK[own], f"rade.{own} must not know rade.{name}"


@looped("path", ORDERED, ids=name_of)
def test_siblings_know_only_those_before_them(path):
    folder, own = home(path), path.relative_to(SOURCE).parts[1].removesuffix(".py")
    order = SIBLINGS[folder].split()
    for parts in imported(path):
        if parts[0] != folder or parts[1] == own:
            continue
        assert parts[1] in order, f"{name_of(path)} must import from the file that defines it, not from rade.{folder}"
        assert order.index(parts[1]) < order.index(own), f"{name_of(path)} must not know rade.{folder}.{parts[1]}"


def test_type_checking_imports_are_exempt(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("if TYPE_CHECKING:\n    import rade.cli\nelse:\n    import rade.nn.gat\nfrom rade.view import law")
    assert imported(file) == {("nn", "gat"), ("view", "law")}


@looped("path", [path for path in FILES if home(path) == "data"], ids=lambda path: path.name)
def test_data_knows_graphs_only(path):
    assert packages(path) <= DATA_MAY_KNOW


def test_the_library_does_not_print():
    """The command line does."""
    for path in FILES:
        if home(path) in ("commands", "cli", "__main__"):
            continue
        calls = (
            node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        )
        assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls), path
