"""Many cases in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def looped(names: str | tuple[str, ...], values: Iterable[Any], ids: Callable[[Any], str] = str) -> Callable[..., Any]:
    """Like `pytest.mark.parametrize`, but one test for all values; a failure names every case that failed."""
    single, values = isinstance(names, str), list(values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for value in values:
                given = {names: value} if single else dict(zip(names, value))
                try:
                    test(*args, **kwargs, **given)
                except pytest.skip.Exception:
                    continue
                except Exception as error:
                    failed.append((", ".join(f"{name}={ids(case)}" for name, case in given.items()), error))
            if failed:
                cases = "\n".join(f"[{case}] {error}" for case, error in failed)
                raise AssertionError(f"{len(failed)} of {len(values)} cases:\n{cases}") from failed[0][1]

        hidden = {names} if single else set(names)
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in hidden]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
