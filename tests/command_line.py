"""Running the command line, inside the test process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rade.cli import main

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "rade"]
Call = Callable[..., tuple[Any, str, str]]
STARTED: list[subprocess.Popen[str]] = []


def caller(capsys: pytest.CaptureFixture[str]) -> Call:
    """A function that calls `rade ARGUMENTS`; returns exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


def assert_refused(call: Call, arguments: str, sentence: str) -> None:
    """One sentence on standard error, exit code 2."""
    code, _, err = call(*arguments.split())
    assert code == 2
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def start(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """`python -m rade ARGUMENTS` in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    STARTED.append(subprocess.Popen([*COMMAND, *arguments], cwd=cwd, env={**ENVIRONMENT, **(env or {})}, **pipes))
    return STARTED[-1]


def end_all() -> None:
    """Kill what a failed test has left behind, for it may train for hours."""
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file appears, at most two minutes."""
    for _ in range(12000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")
