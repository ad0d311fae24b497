"""The only two ways to keep what was computed: with an immutable value, or by the memory of tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

T = TypeVar("T")


@contextmanager
def ordinary_tensors() -> Iterator[None]:
    """Outside inference mode, gradients as they were: what is kept must serve training later."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    gradients = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(gradients):
        yield


class Memo:
    """What an immutable value has computed about itself; copies and pickles start empty.

    limit: how many entries are kept, those used latest; all of them if not given.

    >>> memo = Memo()
    >>> memo.once("answer", lambda: 42), memo.once("answer", lambda: 0)
    (42, 42)
    """

    __slots__ = ("kept", "limit")

    def __init__(self, limit: int | None = None) -> None:
        self.kept: dict[Hashable, Any] = {}
        self.limit = limit

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed on first use of ``key``."""
        if key in self.kept:
            found: T = self.kept[key]
            if self.limit is not None:  # the latest used are kept
                self.kept[key] = self.kept.pop(key)
            return found
        with ordinary_tensors():
            value = build()
        self.kept[key] = value
        if self.limit is not None and len(self.kept) > self.limit:
            del self.kept[next(iter(self.kept))]
        return value

    def __len__(self) -> int:
        return len(self.kept)

    def __reduce__(self) -> tuple[type[Memo], tuple[int | None]]:
        return Memo, (self.limit,)


class remembered(Generic[T]):
    """A property of an immutable value, computed on first use and kept in its ``memo``."""

    def __init__(self, method: Callable[[Any], T]) -> None:
        self.method = method
        self.name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> remembered[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> remembered[T] | T:
        if instance is None:
            return self
        memo: Memo = instance.memo
        if self.name in memo.kept:  # the common case, without a closure
            found: T = memo.kept[self.name]
            return found
        return memo.once(self.name, lambda: self.method(instance))


class Recall(Generic[T]):
    """What was computed from tensors, as long as their memory lives unchanged; copies and pickles start empty.

    Keyed by storage, so that slices, detached copies and the index tensors of a CSR matrix, which are new objects on
    every access, find what was computed from the same memory. An in-place change shows in the version counter; memory
    that is freed takes the value along, which therefore must not share it.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[list[int], list[weakref.ref[Any]], T]] = {}

    def get(self, tensors: Sequence[Tensor | None], extra: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed once for these tensors (missing ones count) and ``extra``."""
        places: list[Hashable] = [extra]
        versions, given = [], []
        for tensor in tensors:  # one plain loop: this is asked several times in every layer of every pass
            if tensor is None:
                places.append(None)
                continue
            if tensor.is_inference():  # it counts no versions: build, do not keep
                return build()
            given.append(tensor)
            versions.append(tensor._version)
            places += (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride())
            places.append(tensor.dtype)
        key = tuple(places)
        found = self._kept.get(key)
        if found is not None and found[0] == versions and None not in [ref() for ref in found[1]]:
            return found[2]
        with ordinary_tensors():
            value = build()
        kept = self._kept  # a callback that knew `self` would keep it alive
        refs = [weakref.ref(tensor.untyped_storage(), lambda _: kept.pop(key, None)) for tensor in given]
        kept[key] = (versions, refs, value)
        return value

    def __len__(self) -> int:
        return len(self._kept)

    def __reduce__(self) -> tuple[type[Recall[T]], tuple[()]]:
        return type(self), ()
