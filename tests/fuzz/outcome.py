"""The command line inside the test process, on a small data set, with the promise that every outcome keeps."""

import contextlib
import io
import os
import tempfile
from pathlib import Path
from unittest import mock

import torch

from rade import data as data_sets
from rade.cli import main
from rade.data import Words, load
from rade.errors import RadeError

DOCUMENTED = {0, 1, 2, 3}  # and 128 + n, for signals, which nobody sends here


class Enough(RadeError):
    """The settings were accepted: nothing is to be trained."""

    code = 0


def enough(name, root):
    raise Enough("accepted")


def small(name, root):
    """The embedded data sets at a tenth of their size; any other as usual."""
    return load(name, root, **{"csbm": {"nodes": 250, "content": Words(60)}, "far-pair": {"graphs": 30}}.get(name, {}))


def rade(*arguments, data=small):
    """Run a command: exit code and standard error. A traceback would pass through and fail the test."""
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.object(data_sets, "load", data):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = stopped.code
        finally:
            torch.set_num_threads(1)
    assert code in DOCUMENTED, (code, err.getvalue())
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("warning: ")]
    assert code == 0 or (len(lines) == 1 and lines[0].startswith("error: ")), err.getvalue()
    return code, err.getvalue()


@contextlib.contextmanager
def empty_folder():
    """Work in a new folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)
