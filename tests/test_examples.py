"""Every example runs, from any folder, writes nothing there, and prints what it promises."""

import re
import runpy
from pathlib import Path

import pytest

import rade

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
ACCURACY = r"(?:accuracy|AUC of hidden edges) ([\d.]+)%"
# What must be printed: a pattern of a number, how often it occurs, and the bounds of that number.
PROMISED = {
    "compare_my_model": [(r"^(\d+)/12 ", 12, 1, 12), (r"the plain model.*(95) % interval", 2, 95, 95)],
    "deploy": [(r"differs from the model by (\S+) on", 4, 0, 1e-5)],
    "graph_classification": [(r"epoch 20: test ([\d.]+)%", 1, 75, 100), (r"^conv(\d): keeps", 2, 1, 2)],
    "heterogeneous": [(ACCURACY, 2, 60, 100)],  # chance is 33
    "lightning_module": [(r"p from 0.5 to ([\d.]+) in 120 steps", 1, 0, 0.499), (ACCURACY, 1, 80, 100)],
    "link_prediction": [(ACCURACY, 2, 70, 100), (r"p from 0.5 to ([\d.]+)", 3, 0.501, 1)],  # chance is 50
    "long_range": [(r"RADE-OFS.*?([\d.]+)%", 1, 90, 100), (r"^(?!RADE-OFS).*?([\d.]+)%", 3, 0, 35)],  # chance is 20
    "minibatch_sage": [(r"epoch 8: test ([\d.]+)%", 1, 75, 100)],
    "molecules_with_bonds": [(ACCURACY, 2, 75, 100), (r"differ by (\S+)$", 2, 0, 1e-4)],
    "noisy_graph": [(r"^as many.* ([\d.]+)%", 1, 80, 87), (r"^denoised.* ([\d.]+)%", 2, 88, 95)],
    "own_aggregator": [(r"^holds: (.)", len(rade.testing.CHECKS), None, None)],
    "own_gcn": [(ACCURACY, 2, 50, 100), (r"difference [+-][\d.]+%, 95 % interval (-?[\d.]+)% to", 1, -50, 50)],
}


def test_there_are_the_promised_ones():
    listed = re.findall(r"`(\w+\.py)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(set(listed)) == [script.name for script in SCRIPTS]
    assert sorted(PROMISED) == [script.stem for script in SCRIPTS]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:only .* of the rows are labelled")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path, monkeypatch, capsys):
    if script.stem == "lightning_module":
        pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    output = capsys.readouterr().out
    print(output)
    for pattern, count, low, high in PROMISED[script.stem]:
        found = re.findall(pattern, output, re.MULTILINE)
        assert len(found) == count, pattern
        assert low is None or all(low <= float(number) <= high for number in found), pattern
    assert not list(tmp_path.iterdir())
