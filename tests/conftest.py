"""What tests share: signals as in a terminal, and the command line in this process or in one of its own."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from rade.cli import main

# Whoever starts the tests with `nohup` or in the background has signals ignored, and so would every process that a
# test starts and then interrupts.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture
def rade(capsys, tmp_path, monkeypatch):
    """Call `rade ARGUMENTS` in an empty folder; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    torch.set_num_threads(1)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        return stopped.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def start(tmp_path):
    """Start `python ARGUMENTS` in an empty folder; what a failed test leaves running, maybe for hours, is killed."""
    started = []

    def process(*arguments, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *map(str, arguments)]
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **(pipes | options)))
        return started[-1]

    yield process
    for one in started:
        if one.poll() is None:
            one.kill()
            one.communicate()
