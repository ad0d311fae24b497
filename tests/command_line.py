"""Running the command line inside the test process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rade.cli import main


def caller(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str, str]]:
    """A function that calls `rade ARGUMENTS`; returns exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call
