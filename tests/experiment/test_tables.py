"""Every packaged table can be read and run."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from rade import experiment
from rade.data.catalogue import catalogue
from rade.experiment import Published
from rade.train.protocol import PROTOCOLS
from rade.train.settings import BACKBONES, METHODS, Settings, resolve

DOCS = Path(__file__).parents[2] / "docs" / "reproduce.md"
TABLES = [experiment.load(name) for name in experiment.names()]
named = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
# Data sets that a table may name before the catalogue has them.
AWAITED = {"minesweeper", "tolokers", "chameleon-filtered", "squirrel-filtered", "nci1"}


GOOD = """
title = "Mine"
seeds = 3
backbones = ["gcn", "gin"]
datasets = ["cora", "pubmed"]

[[rows]]
name = "Plain"
method = "none"
settings = { layers = 3, hidden = { cora = 16 } }
published.gcn.cora = [81, 0.5]

[[rows]]
name = "Linear"
method = "rade-of-fixed"
backbones = ["sgc"]
search = { p = [0.1, 0.2], rho = [0.5, 1.0] }
"""


def written(folder: Path, text: str = GOOD) -> Path:
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    return folder / "mine.toml"


@named
def test_names_are_those_of_the_registries(table):
    assert table.protocol in PROTOCOLS
    assert set(table.datasets) <= set(catalogue()) | AWAITED
    for row in table.rows:
        assert row.method in METHODS
        assert set(row.backbones) <= set(BACKBONES)


@named
def test_every_cell_resolves_to_settings(table):
    """With every combination that is searched; a setting that the method lacks would be refused."""
    absent = sorted(set(table.datasets) - set(catalogue()))
    for cell in experiment.cells(table):
        if cell.dataset in absent:
            continue
        for searched in cell.row.candidates():
            chosen = cell.settings | searched
            settings = resolve(cell.dataset, cell.backbone, cell.row.method, table.protocol, **chosen)
            assert (settings.pool == "none") == (catalogue()[cell.dataset].level == "node"), cell
            fields = settings.model_dump(include=set(Settings.model_fields) - {"options"}) | settings.options
            assert chosen.items() <= fields.items(), cell
    if absent:
        pytest.skip(f"not in the catalogue yet: {', '.join(absent)}")


@named
def test_cells_are_rows_by_backbones_by_data_sets(table):
    found = list(experiment.cells(table))
    assert len(found) == sum(len(row.backbones) for row in table.rows) * len(table.datasets)
    assert len({str(cell) for cell in found}) == len(found)


@named
def test_tables_of_the_paper_are_full_and_others_have_no_numbers(table):
    """Rows of ours in a table of the paper, such as RADE(model), have none either."""
    rows: dict[str, set[bool]] = {}
    for cell in experiment.cells(table):
        rows.setdefault(f"{cell.row.name} {cell.backbone}", set()).add(cell.published is not None)
    assert all(len(found) == 1 for found in rows.values())
    assert any(True in found for found in rows.values()) == bool(table.label)


def test_only_runtime_is_measured_in_seconds():
    assert {table.name for table in TABLES if table.measure == "seconds_per_epoch"} == {"runtime"}


def test_what_is_tuned_is_searched():
    for table in TABLES:
        for row in table.rows:
            assert ("(tuned)" in row.name) == bool(row.search), (table.name, row.name)


def test_linear_rows_have_linear_backbones():
    for table in TABLES:
        for row in table.rows:
            assert (row.backbones in (("sgc",), ("gin-lin",))) == ("-Lin" in row.name), (table.name, row.name)
    assert {row.name: row.backbones for row in experiment.load("ablations-gin").rows}["GIN-Lin"] == ("gin-lin",)


@pytest.mark.parametrize(("name", "method"), [
    ("Dropout", "dropout"), ("DropEdge", "drop-edge"), ("DropNode", "drop-node"), ("DropMessage", "drop-message"),
    ("RADE-OF", "rade-of"), ("RADE-OFS", "rade-ofs"), ("RADE-OF w/o GN", "rade-of-fixed"),
    ("RADE-OF w/o GN & EPC", "rade-of-uncorrected"), ("RADE-OF-Drop", "rade-of-drop"), ("RADE-OF-Add", "rade-of-add"),
    ("RADE-OF (tuned)", "rade-of-fixed"), ("RADE-OFS (tuned)", "rade-ofs-fixed"), ("GCN", "none"), ("GIN", "none"),
    ("GAT", "none"), ("RADE-OF-Lin", "rade-of"), ("RADE-OF-Lin w/o GN", "rade-of-fixed"),
    ("RADE-OF-Lin w/o GN & EPC", "rade-of-uncorrected"), ("GCN-Lin (SGC)", "none"), ("GIN-Lin", "none"),
])  # fmt: skip
def test_rows_of_the_paper_run_the_method_of_their_name(name, method):
    found = {row.method for table in TABLES if table.label for row in table.rows if row.name == name}
    assert found == {method}


def test_depth_is_varied_at_equal_rates():
    rows = {row.name: row for row in experiment.load("depth").rows}
    assert len(rows) == 12
    assert rows["Corrected, layers 8"].method == "rade-of-fixed"
    assert rows["Uncorrected, layers 8"].settings == rows["Corrected, layers 8"].settings == {"layers": 8}


def test_a_setting_is_varied_or_set(tmp_path):
    text = GOOD.replace("published.gcn.cora = [81, 0.5]\n", "").replace("[[rows]]", "[vary]\n{} = [1]\n[[rows]]", 1)
    for name, row in (("layers", "Plain"), ("rho", "Linear")):
        with pytest.raises(experiment.TableError, match=f"row '{row}': '{name}' is varied by the table and set by"):
            experiment.read(written(tmp_path, text.replace("{}", name)))


def test_values_made_in_python_check_themselves():
    with pytest.raises(ValueError, match="at least 1 item"):
        experiment.Row("Plain", "dropout", ("gcn",), search={"rate": ()})


def test_a_table_of_ones_own(tmp_path):
    table = experiment.read(written(tmp_path))
    assert (table.name, table.label, table.protocol, table.measure) == ("mine", "", "released", "score")
    plain, linear = table.rows
    assert plain.settings_on("cora") == {"layers": 3, "hidden": 16}
    assert plain.settings_on("pubmed") == {"layers": 3}
    assert plain.published == {"gcn": {"cora": Published(81.0, 0.5)}}
    assert plain.candidates() == ({},)
    assert linear.backbones == ("sgc",)
    assert linear.candidates() == (
        {"p": 0.1, "rho": 0.5},
        {"p": 0.1, "rho": 1.0},
        {"p": 0.2, "rho": 0.5},
        {"p": 0.2, "rho": 1.0},
    )
    first, *rest = experiment.cells(table)
    assert (first.settings, first.published) == ({"layers": 3, "hidden": 16}, Published(81.0, 0.5))
    assert len(rest) == 5
    assert all(cell.published is None for cell in rest)
    assert pickle.loads(pickle.dumps(first)) == first


def test_the_table_of_the_guide_can_be_read(tmp_path):
    (content,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), flags=re.DOTALL)
    table = experiment.read(written(tmp_path, content))
    assert experiment.cells(table)
    for cell in experiment.cells(table):
        for searched in cell.row.candidates():
            resolve(cell.dataset, cell.backbone, cell.row.method, table.protocol, **cell.settings, **searched)


def test_the_guide_names_every_table():
    listed = set(re.findall(r"`([a-z-]+)`", DOCS.read_text("utf-8")))
    assert set(experiment.names()) <= listed
