"""What a model is, in a hash: classes, plain attributes, first parameters, and the text of classes of one's own."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import torch
from torch.nn import Module, UninitializedParameter

VALUES = (bool, int, float, str, bytes, tuple, list, dict, Enum, type(None))
KNOWN = ("torch", "torch_geometric", "rade")  # packages whose classes their names tell


def identity(model: Module, common: str) -> str:
    """A name of all that decides what a model computes, as far as it can be told from outside, and of ``common``."""
    found = hashlib.sha256(common.encode())
    for path, module in model.named_modules():
        kind = type(module)
        found.update(f"{path} {kind.__module__}.{kind.__qualname__} {_settings(module)} {_text(kind)}".encode())
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor) and not isinstance(value, UninitializedParameter):
            found.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _settings(module: Module) -> str:
    """Attributes that are plain values; others, whose text holds an address, tell nothing."""
    own = {name: value for name, value in sorted(vars(module).items()) if not name.startswith("_")}
    values = {name: repr(value) for name, value in own.items() if _is_plain(value)}
    return f"{module.extra_repr()} { {name: text for name, text in values.items() if ' at 0x' not in text} }"


def _is_plain(value: Any) -> bool:
    return isinstance(value, VALUES) or (is_dataclass(value) and not isinstance(value, type))


def _text(kind: type) -> str:
    if kind.__module__.partition(".")[0] in KNOWN:
        return ""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # typed into a session
        return ""
