"""Every example runs in a process of its own and prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rade

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def test_there_are_the_promised_ones():
    listed = re.findall(r"`(\w+\.py)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(set(listed)) == [script.name for script in SCRIPTS]
    assert len(SCRIPTS) == 12


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path):
    """From any folder, writing nothing; under a minute on one free core, twice that is allowed on a busy machine."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    print(done.stdout)
    if "No module named 'lightning'" in done.stderr:
        pytest.skip("lightning is not installed")
    assert done.returncode == 0, done.stderr[-3000:]
    CHECKS[script.stem](done.stdout)
    assert not list(tmp_path.iterdir())


def percentages(output: str) -> list[float]:
    return [float(value) for value in re.findall(r"([\d.]+)%", output)]


def own_gcn(output: str) -> None:
    """Both learn (chance is 25 %), the rates move, and the difference comes with an interval, whatever it is."""
    plain, wrapped = (percentages(line)[0] for line in output.splitlines() if "test accuracy" in line)
    assert min(plain, wrapped) > 50
    assert len(set(re.findall(r"p from 0.5 to ([\d.]+)", output)) - {"0.500"}) > 1
    assert re.search(r"difference [+-][\d.]+%, 95 % interval -?[\d.]+% to -?[\d.]+%", output)


def long_range(output: str) -> None:
    plain, of, ofs, chance = (percentages(line)[0] for line in output.splitlines())
    assert max(plain, of) < chance + 15
    assert ofs > 90


def minibatch_sage(output: str) -> None:
    assert percentages(output.splitlines()[-1])[0] > 75


def graph_classification(output: str) -> None:
    lines = output.splitlines()
    assert percentages(lines[3])[0] > 75
    assert [line.split(":")[0] for line in lines[4:]] == ["conv1", "conv2"]


def own_aggregator(output: str) -> None:
    held = [line for line in output.splitlines() if line.startswith("holds: ")]
    assert len(held) == len(rade.testing.CHECKS)
    assert "ok  layer (top)  LouderConv: by moments" in output


def noisy_graph(output: str) -> None:
    clean, plain, known, estimated = (percentages(line)[-1] for line in output.splitlines()[:4])
    assert plain + 3 < known < clean
    assert known < estimated  # features tell which edges


def molecules_with_bonds(output: str) -> None:
    lines = output.splitlines()
    assert [line.split(":")[0] for line in lines] == ["BondGIN", "BondGCN"]
    assert all(percentages(line)[0] > 75 for line in lines)
    assert all(float(line.rsplit(" ", 1)[1]) < 1e-4 for line in lines)


def compare_my_model(output: str) -> None:
    lines = output.splitlines()
    assert lines[11].startswith("12/12  ")
    assert lines[12].split()[:3] == ["method", "accuracy", "against"]
    assert [line.split()[0] for line in lines[13:]] == ["none", "drop-edge", "rade-of", "drop-edge", "rade-of"]
    assert all("the plain model" in line and "95 % interval" in line for line in lines[16:])


def link_prediction(output: str) -> None:
    plain, wrapped = (percentages(line)[0] for line in output.splitlines() if "AUC" in line)
    assert min(plain, wrapped) > 70  # chance is 50
    assert len(set(re.findall(r"p from 0.5 to ([\d.]+)", output)) - {"0.500"}) > 1


def lightning_module(output: str) -> None:
    steps, accuracy = output.splitlines()
    assert "in 120 steps of the rates" in steps
    assert percentages(accuracy)[0] > 80


def deploy(output: str) -> None:
    gaps = [float(gap) for gap in re.findall(r"differs from the model by (\S+) on", output)]
    assert len(gaps) == 4
    assert max(gaps) < 1e-5


def heterogeneous(output: str) -> None:
    plain, wrapped = percentages(output)
    assert min(plain, wrapped) > 60  # chance is 33


CHECKS = {
    check.__name__: check
    for check in (
        *(own_gcn, long_range, minibatch_sage, graph_classification, own_aggregator, noisy_graph),
        *(molecules_with_bonds, compare_my_model, link_prediction, lightning_module, deploy),
        heterogeneous,
    )
}
