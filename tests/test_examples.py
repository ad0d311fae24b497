"""Every example runs in a process of its own and prints what it promises."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from oracle import GRAPHS, RATES, all_views, error
from rade.control.variance import variance
from rade.correction import propagate
from rade.view.view import Correction, MeanView
from registry import normal

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def test_there_are_the_promised_ones():
    listed = re.findall(r"`(\w+\.py)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(set(listed)) == [script.name for script in SCRIPTS]
    assert len(SCRIPTS) == 5


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
    assert done.returncode == 0, done.stderr[-3000:]
    CHECKS[script.stem](done.stdout)
    assert not list(tmp_path.iterdir())


def percentages(output: str) -> list[float]:
    return [float(value) for value in re.findall(r"([\d.]+)%", output)]


def own_gcn(output: str) -> None:
    plain, wrapped = (percentages(line)[0] for line in output.splitlines() if "test accuracy" in line)
    assert wrapped > plain + 5


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
    away = [percentages(line)[0] for line in output.splitlines() if "away" in line]
    assert away[0] > 3 * away[1] > 9 * away[2]


CHECKS = {
    check.__name__: check for check in (own_gcn, long_range, minibatch_sage, graph_classification, own_aggregator)
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("p", "q"), RATES)
@pytest.mark.parametrize("name", GRAPHS)
def test_own_aggregator_obeys_the_laws(name, p, q):
    """The example's aggregator under the enumeration that the library's own are tested by, to 1e-10."""
    louder, graph, m = load("own_aggregator").Louder, GRAPHS[name], normal(GRAPHS[name].num_nodes, 3, seed=5)
    for variant in ("of", "ofs"):
        views = all_views(name, p, q).under(Correction(variant))
        mean = views.mean(views.aggregate(lambda g, _: louder(g, torch.double), m))
        target = propagate(MeanView(graph, views.law), louder(graph, torch.double), m)
        assert error(mean, target) <= 1e-10
        spread = views.variance(views.aggregate(lambda g, _: louder(g, torch.double), m))
        assert error(variance(louder(graph, torch.double), views.law, m).total, spread, scale=m.square()) <= 1e-10
