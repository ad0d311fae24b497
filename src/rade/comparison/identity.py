"""What decides a run, in a hash: its pickle, which holds the code and the values of everything that is one's own."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import cloudpickle
import torch

PYGS_FILES = re.compile(rb"_(propagate|edge_updater)_\w{8}\.py")  # that it writes for a class, in this process alone
INSTALLED = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))


def identity(*parts: Any) -> str:
    """A name of everything in the parts, but for installed packages; the same parts may have another name some day."""
    text = io.BytesIO()
    with _own_code():
        _Pickler(text).dump(parts)
    return hashlib.sha256(PYGS_FILES.sub(b"", text.getvalue())).hexdigest()


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Tensors by their numbers, whose memory has addresses; code without the place in its file."""
        if isinstance(value, torch.Tensor):
            whole = value.detach().cpu().to_dense().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            return tuple, ([value.dtype, value.shape, value.requires_grad, hashlib.sha256(whole).digest()],)
        if isinstance(value, CodeType):
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
            return tuple, ([value.co_code, value.co_consts, names, counts],)
        found: Any = super().reducer_override(value)
        if isinstance(value, type) and isinstance(found, tuple) and len(found[1]) > 2:
            found = (found[0], found[1][:-2], *found[2:])  # without the number that this process gives the class
        return found


@contextmanager
def _own_code() -> Iterator[None]:
    """Let pickles hold the code of modules that are not installed, rather than their names."""
    known = cloudpickle.list_registry_pickle_by_value()
    own = []
    for name, module in list(sys.modules.items()):
        file = vars(module).get("__file__") or INSTALLED[0]
        installed = name.split(".")[0] == "rade" or any(part in file for part in INSTALLED)
        if not installed and module.__name__ == name and name not in known:
            own.append(module)
            cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
