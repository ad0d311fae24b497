"""What a model is, in a hash: classes and the text of one's own, attributes, first parameters."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch.nn import Module, UninitializedParameter

VALUES = (bool, int, float, complex, str, bytes, Enum, type(None))
KNOWN = ("torch", "torch_geometric", "rade")  # packages whose classes and functions their names tell
DEEPEST = 6  # how far objects inside objects are followed
OWN_OF_MODULE = frozenset(vars(Module()))


def identity(model: Module, common: str) -> str:
    """A name of all that decides what a model computes, as far as it can be told from outside, and of ``common``."""
    found = hashlib.sha256(common.encode())
    for path, module in model.named_modules():
        kind = type(module)
        found.update(f"{path} {_name(kind)} {_settings(module)} {_text(kind)}".encode())
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor) and not name.endswith("_extra_state"):  # that is where generators stand
            found.update(f"{name} {_numbers(value)}".encode())
    return found.hexdigest()


def described(value: Any, depth: int = 0) -> str:
    """A value in words that are the same in another process: no addresses, and functions with what they do."""
    if isinstance(value, VALUES):
        return repr(value)
    if depth == DEEPEST:
        return _name(type(value))
    deeper = depth + 1
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{described(k, deeper)}: {described(v, deeper)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [described(item, deeper) for item in value]
        return f"{_name(type(value))}({', '.join(sorted(items) if isinstance(value, (set, frozenset)) else items)})"
    if isinstance(value, torch.Tensor):
        return _numbers(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, partial):
        return f"partial({described((value.func, value.args, value.keywords), deeper)})"
    if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType, type)):
        return _function(value, deeper)
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
        return f"{_name(type(value))} {described(parts, deeper)} {_text(type(value))}"
    if isinstance(value, Module):
        return f"{_name(type(value))} {_settings(value, deeper)} {_text(type(value))}"
    if _is_known(type(value)):
        return _name(type(value))
    return f"{_name(type(value))} {described(getattr(value, '__dict__', {}), deeper)} {_text(type(value))}"


def _settings(module: Module, depth: int = 0) -> str:
    """Attributes, private ones of own classes only: those of libraries are how they work."""
    own = {name: value for name, value in sorted(vars(module).items()) if name not in OWN_OF_MODULE}
    if _is_known(type(module)):
        own = {name: value for name, value in own.items() if not name.startswith("_")}
    return f"{module.extra_repr()} {described(own, depth)}"


def _function(value: Any, depth: int) -> str:
    name = _name(value)
    if _is_known(value):
        return name
    if isinstance(value, type):
        return f"{name} {_text(value)}"
    if isinstance(value, MethodType):
        return f"{_function(value.__func__, depth)} of {described(value.__self__, depth)}"
    if not isinstance(value, FunctionType):
        return name
    held = [_content(cell, depth) for cell in value.__closure__ or ()]
    text = "" if value.__name__ == "<lambda>" else _source(value)  # a line may hold several of those
    return (
        f"{name} {text or _code(value.__code__)} {described((value.__defaults__, value.__kwdefaults__), depth)} {held}"
    )


def _content(cell: Any, depth: int) -> str:
    try:
        return described(cell.cell_contents, depth)
    except ValueError:  # not filled yet
        return ""


def _code(code: CodeType) -> str:
    """What a function does, without where it stands."""
    consts = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {consts}"


def _text(kind: type) -> str:
    """The text of a class and of those it comes from, as far as they are one's own."""
    return " ".join(_source(one) for one in kind.__mro__ if not _is_known(one) and one.__module__ != "builtins")


def _source(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):  # typed into a session
        return ""


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def _is_known(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] in KNOWN


def _numbers(value: torch.Tensor) -> str:
    if isinstance(value, UninitializedParameter):
        return "waits"
    dense = value.detach().cpu()
    dense = dense.to_dense() if dense.layout != torch.strided else dense
    whole = dense.contiguous().view(torch.uint8) if dense.dtype == torch.bfloat16 else dense.contiguous()
    return f"{tuple(value.shape)} {hashlib.sha256(whole.numpy().tobytes()).hexdigest()}"
