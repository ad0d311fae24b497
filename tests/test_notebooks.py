"""The notebook is real, its code runs, and what it holds is what `make notebooks` writes."""

import importlib.util
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("write_notebooks", ROOT / "docs" / "write_notebooks.py")
written = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(written)


@pytest.mark.parametrize("name", written.NOTEBOOKS)
def test_the_stored_notebook_is_the_written_one_with_outputs(name):
    stored = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    nbformat.validate(stored)
    fresh = written.notebook(written.NOTEBOOKS[name])
    assert [cell.source for cell in stored.cells] == [cell.source for cell in fresh.cells]
    outputs = [output for cell in stored.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output.get("name") == "stderr" or output.output_type == "error"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own parts
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", written.NOTEBOOKS)
def test_the_notebook_runs(name, monkeypatch):
    """Every cell, with fewer epochs and seeds than a reader's."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "")  # given back afterwards: executing sets it
    text = written.NOTEBOOKS[name].replace("epochs=80", "epochs=2").replace("seeds=10", "seeds=2, training=SHORT")
    text = text.replace("import rade\n", "import rade\n\nSHORT = rade.Training(epochs=2)\n", 1)
    done = written.executed(written.notebook(text))
    streams = "".join(output.get("text", "") for cell in done.cells for output in cell.get("outputs", []))
    assert streams.count("rade-ofs") >= 4  # a line and a sentence for either problem
