"""Every public name says what it is."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

import rade

PUBLIC = [(module, name) for module in ("rade", "rade.nn", "rade.moments") for name in import_module(module).__all__]


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
        silent = [method for method, member in own_methods(value) if not inspect.getdoc(member)]
        assert not silent, f"{module}.{name}: {', '.join(silent)} without a docstring"


@pytest.mark.parametrize("name", ["Sum", "Symmetric", "Mean", "Attention", "Coefficients"])
def test_aggregators_give_their_formula(name):
    doc = inspect.getdoc(getattr(import_module("rade.moments"), name)) or ""
    assert "α" in doc or "attention" in doc.lower()
    assert "E[α'" in doc or "Appendix" in doc or "Def." in doc


@pytest.mark.parametrize("name", [name for name in import_module("rade.nn").__all__ if name.endswith("Conv")])
def test_layers_state_shapes(name):
    layer = getattr(import_module("rade.nn"), name)
    if "forward" in vars(layer):
        assert "[n, F_in]" in (layer.forward.__doc__ or "")


def test_all_lists_what_exists():
    for name in rade.__all__:
        assert getattr(rade, name) is not None
    assert set(rade.__all__) <= set(dir(rade))
