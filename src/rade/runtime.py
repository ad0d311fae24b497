"""What the library knows of its surroundings: ranks, inference mode, and the memory that tensors live in."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
_referent = weakref.ref.__call__  # what a reference is to, None once that is gone


def distributed() -> bool:
    """Whether this process is part of a distributed run."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank() -> int:
    """The rank of this process in a distributed run, 0 without one."""
    return torch.distributed.get_rank() if distributed() else 0


def average(values: Tensor) -> Tensor:
    """The mean over the ranks of a distributed run; the values themselves otherwise."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return values
    total = values.clone()
    torch.distributed.all_reduce(total)
    return total / torch.distributed.get_world_size()


@contextmanager
def ordinary_tensors() -> Iterator[None]:
    """Outside inference mode, gradients as they were: what is kept must serve training later."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    gradients = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(gradients):
        yield


def by_fields(value: Any) -> tuple[type, tuple[object, ...]]:
    """How to copy and pickle a dataclass, for its ``__reduce__``: what it has computed since stays behind."""
    return type(value), tuple(getattr(value, field.name) for field in fields(value) if field.init)


class Recall(Generic[T]):
    """What was computed from tensors, as long as their memory lives unchanged; copies and pickles start empty.

    Keyed by storage, so that slices, detached copies and the index tensors of a CSR matrix, which are new objects on
    every access, find what was computed from the same memory. An in-place change shows in the version counter; memory
    that is freed takes the value along, which therefore must not share it.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[list[int], list[weakref.ref[torch.UntypedStorage]], T]] = {}

    def get(self, tensors: Sequence[Tensor | None], extra: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed once for these tensors (missing ones count) and ``extra``."""
        key, versions, given = _place(tensors, extra)
        if versions is None:  # an inference tensor counts no versions: build, do not keep
            return build()
        found = self._kept.get(key)
        if found is not None and found[0] == versions and None not in map(_referent, found[1]):
            return found[2]
        if torch.is_inference_mode_enabled():
            with ordinary_tensors():
                value = build()
        else:
            value = build()
        kept, refs = self._kept, []  # a callback that knew `self` would keep it alive
        for tensor in given:
            refs.append(weakref.ref(tensor.untyped_storage(), lambda _: kept.pop(key, None)))
        kept[key] = (versions, refs, value)
        return value

    def known(self, tensors: Sequence[Tensor | None], extra: Hashable) -> bool:
        """Whether `get` would find a value."""
        key, versions, _ = _place(tensors, extra)
        found = None if versions is None else self._kept.get(key)
        return found is not None and found[0] == versions and None not in map(_referent, found[1])

    def __len__(self) -> int:
        return len(self._kept)

    def __reduce__(self) -> tuple[type[Recall[T]], tuple[()]]:
        return type(self), ()


def _place(tensors: Sequence[Tensor | None], extra: Hashable) -> tuple[Hashable, list[int] | None, list[Tensor]]:
    """Where tensors lie in memory, their versions (None if one counts none), and those that are there."""
    places: list[Hashable] = [extra]
    versions: list[int] = []
    given: list[Tensor] = []
    for tensor in tensors:  # one plain loop: this is asked in every layer of every pass
        if tensor is None:
            places.append(None)
            continue
        if tensor.is_inference():
            return None, None, given
        given.append(tensor)
        versions.append(tensor._version)
        places += (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride())
        places.append(tensor.dtype)
    return tuple(places), versions, given
