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


def identity(model: Module, common: str = "") -> str:
    """A name of all that decides what a model computes, as far as it can be told from outside, and of ``common``."""
    parts = [f"{path} {described(module)}" for path, module in model.named_modules()]
    parts += [f"{name} {described(value)}" for name, value in model.state_dict().items() if "_extra_state" not in name]
    return hashlib.sha256("\n".join([common, *parts]).encode()).hexdigest()


def described(value: Any, depth: int = 0) -> str:
    """A value in words that are the same in another process: no addresses, and functions with what they do."""
    deeper = partial(described, depth=depth + 1)
    kind = type(value)
    if isinstance(value, VALUES):
        return repr(value)
    if depth == DEEPEST:
        return _name(kind)
    if isinstance(value, torch.Tensor):
        return _numbers(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{deeper(name)}: {deeper(item)}' for name, item in value.items())}}}"
    if isinstance(value, (list, tuple, set, frozenset)):
        found = map(deeper, value)
        return f"{_name(kind)}({', '.join(sorted(found) if isinstance(value, (set, frozenset)) else found)})"
    if isinstance(value, partial):
        return f"partial({deeper((value.func, value.args, value.keywords))})"
    if isinstance(value, (type, FunctionType, MethodType, BuiltinFunctionType)):
        return _name(value) if _is_known(value) else _function(value, deeper)
    if isinstance(value, Module):
        # Private attributes of libraries are how they work; those of one's own classes are settings.
        own = {name: item for name, item in sorted(vars(value).items()) if name not in OWN_OF_MODULE}
        own = {name: item for name, item in own.items() if not (_is_known(kind) and name.startswith("_"))}
        return f"{_name(kind)} {value.extra_repr()} {deeper(own)} {_text(kind)}"
    if is_dataclass(value):
        return f"{_name(kind)} {deeper({f.name: getattr(value, f.name) for f in fields(value) if f.compare})}"
    held = {} if _is_known(kind) or not hasattr(value, "__dict__") else vars(value)
    return f"{_name(kind)} {deeper(held)} {_text(kind)}"


def _function(value: Any, deeper: Any) -> str:
    if isinstance(value, type):
        return f"{_name(value)} {_text(value)}"
    if isinstance(value, MethodType):
        return f"{deeper(value.__func__)} of {deeper(value.__self__)}"
    if not isinstance(value, FunctionType):
        return _name(value)
    held = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    text = "" if value.__name__ == "<lambda>" else _source(value)  # a line may hold several of those
    return f"{_name(value)} {text or _code(value.__code__)} {deeper((value.__defaults__, value.__kwdefaults__, held))}"


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # not filled yet
        return False


def _code(code: CodeType) -> str:
    """What a function does, without where it is defined."""
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
    whole = value.detach().cpu().to_dense().contiguous().reshape(-1).view(torch.uint8)
    return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(whole.numpy().tobytes()).hexdigest()}"
