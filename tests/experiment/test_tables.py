"""Every packaged table can be read and run; what is wrong in a table of one's own is told in one sentence."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rade import experiment
from rade.data.catalogue import catalogue
from rade.experiment import Published, TableError
from rade.experiment.values import MEASURES
from rade.train.settings import BACKBONES, METHODS, PROTOCOLS, Settings, resolve

DOCS = Path(__file__).parents[2] / "docs" / "experiments.md"
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


def written(folder: Path, text: str = GOOD, old: str = "", new: str = "") -> Path:
    assert old in text
    path = folder / "mine.toml"
    path.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    return path


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
    assert {cell.published is not None for cell in experiment.cells(table)} == {bool(table.label)}


def test_only_runtime_is_measured_in_seconds():
    assert {table.name for table in TABLES if table.unit == "s"} == {"runtime"}
    assert set(MEASURES.values()) == {"%", "s"}


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


def test_reading_needs_no_torch():
    """Reports read tables where there is no torch."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'torch_geometric', 'pydantic', 'numpy'])); "
        "import rade.experiment as e; print(sum(len(list(e.cells(e.load(n)))) for n in e.names()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == sum(len(list(experiment.cells(table))) for table in TABLES)


def test_a_table_of_ones_own(tmp_path):
    table = experiment.read(written(tmp_path))
    assert (table.name, table.label, table.protocol, table.unit) == ("mine", "", "released", "%")
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
    for cell in experiment.cells(table):
        for searched in cell.row.candidates():
            resolve(cell.dataset, cell.backbone, cell.row.method, table.protocol, **cell.settings, **searched)


def test_the_guide_names_every_table():
    listed = set(re.findall(r"`([a-z-]+)`", DOCS.read_text("utf-8")))
    assert set(experiment.names()) <= listed


def test_an_unknown_table_gets_the_list():
    with pytest.raises(TableError, match=r"unknown table 'node-gnc'; did you mean 'node-gcn'\? Known: ablations-gat, "):
        experiment.load("node-gnc")
    with pytest.raises(TableError, match=r"unknown table 'zzz'\. Known: "):
        experiment.load("zzz")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(TableError, match=r"cannot read .*none\.toml: No such file"):
        experiment.read(tmp_path / "none.toml")
    with pytest.raises(TableError, match=r"mine\.toml is not valid TOML: "):
        experiment.read(written(tmp_path, "title ="))
    (tmp_path / "bytes.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(TableError, match=r"bytes\.toml is not valid TOML: "):
        experiment.read(tmp_path / "bytes.toml")


WRONG = {
    "no title": ('title = "Mine"\n', "", "the table must have the key 'title'"),
    "no rows": (GOOD[GOOD.index("[[rows]]") :], "", "the table must have the key 'rows'"),
    "empty rows": (GOOD[GOOD.index("[[rows]]") :], "rows = []", "rows must hold at least one name"),
    "rows of another kind": (GOOD[GOOD.index("[[rows]]") :], "rows = 3", "rows must be a list of .*, got 3"),
    "unknown key": ("seeds = 3", "seeds = 3\nsedes = 3", "the table has no key 'sedes'; did you mean 'seeds'?"),
    "title of another kind": ('"Mine"', "3", "the table: title must be a text, got 3"),
    "seeds of another kind": ("seeds = 3", "seeds = true", "the table: seeds must be a whole number, got True"),
    "no seeds": ("seeds = 3", "seeds = 0", "seeds must be at least 1, got 0"),
    "measure": ("seeds = 3", 'seeds = 3\nmeasure = "miles"', "measure must be one of score, .*, got 'miles'"),
    "one backbone": ('["gcn", "gin"]', '"gcn"', "backbones must be a list of names such as .*, got 'gcn'"),
    "no data sets": ('["cora", "pubmed"]', "[]", "datasets must hold at least one name"),
    "data set twice": ('["cora", "pubmed"]', '["cora", "cora"]', "datasets must differ, but 'cora' is there twice"),
    "empty name": ('name = "Plain"', 'name = ""', "rows must not hold an empty name"),
    "row twice": ('"Linear"', '"Plain"', "rows must differ, but 'Plain' is there twice"),
    "row without a name": ('name = "Linear"\n', "", "row number 2 must have the key 'name'"),
    "row without a method": ('method = "none"\n', "", "row 'Plain' must have the key 'method'"),
    "unknown key of a row": ("search =", "serach =", "row 'Linear' has no key 'serach'; did you mean 'search'?"),
    "settings of another kind": ("settings = { layers = 3,", "settings = 3 #", "row 'Plain': settings must be a table"),
    "settings by another data set": ("{ cora = 16 }", "{ cs = 16 }", "settings.hidden names the data set 'cs', which"),
    "no setting": ("layers = 3,", 'backbone = "gat",', "row 'Plain': 'backbone' is no setting of a row"),
    "searched method": ("p = [0.1, 0.2]", 'method = ["none"]', "row 'Linear': 'method' is no setting of a row"),
    "search without a list": ("p = [0.1, 0.2]", "p = 0.1", "'Linear': search.p must be a list of .*, got 0.1"),
    "search without a candidate": ("p = [0.1, 0.2]", "p = []", r"'Linear': search.p must be a list of .*, got \[\]"),
    "searched and set": ("search =", "settings.p = 0.1\nsearch =", "'p' stands in settings and in search; keep one"),
    "selection": ("search =", 'selection = "test"\nsearch =', "selection must be 'validation', got 'test'; a setting"),
    "published backbone": (
        "published.gcn",
        "published.gat",
        "published names the backbone 'gat', which is none of gcn",
    ),
    "published data set": (
        "gcn.cora",
        "gcn.cs",
        "published.gcn names the data set 'cs', which is none of cora, pubmed",
    ),
    "published mean alone": ("[81, 0.5]", "[81]", r"'Plain', published: gcn.cora must be \[mean, std\], got \[81\]"),
    "published text": ("[81, 0.5]", '["81", 0.5]', r"gcn.cora must be \[mean, std\], got \['81', 0.5\]"),
    "published backbone alone": (".cora = [81, 0.5]", " = 3", "'Plain', published: gcn must be a table, got 3"),
    "negative deviation": ("[81, 0.5]", "[81, -1]", "'Plain', published: gcn.cora: mean and standard .*81.0, -1.0"),
    "not a number": ("[81, 0.5]", "[nan, 1]", "'Plain', published: gcn.cora: mean and standard .*nan, 1.0"),
    "varied numbers": (
        "[[rows]]",
        "[vary]\nepochs = [1]\n[[rows]]",
        r"'Plain': a table with \[vary\] has no published",
    ),
    "varied nothing": ("[[rows]]", "[vary]\nepochs = []\n[[rows]]", r"vary.epochs must be a list of .*, got \[\]"),
}


@pytest.mark.parametrize(("old", "new", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_place(tmp_path, old, new, sentence):
    with pytest.raises(TableError, match=sentence.replace("?", r"\?")) as caught:
        experiment.read(written(tmp_path, old=old, new=new))
    assert str(caught.value).startswith(f"{tmp_path / 'mine.toml'}: ")


def test_a_setting_is_varied_or_set(tmp_path):
    text = GOOD.replace("published.gcn.cora = [81, 0.5]\n", "")
    with pytest.raises(TableError, match="row 'Plain': 'layers' is varied by the table and set by the row; keep one"):
        experiment.read(written(tmp_path, text, "[[rows]]", "[vary]\nlayers = [1]\n[[rows]]"))
    with pytest.raises(TableError, match="row 'Linear': 'rho' is varied by the table and set by the row; keep one"):
        experiment.read(written(tmp_path, text, "[[rows]]", "[vary]\nrho = [1]\n[[rows]]"))


def test_values_made_in_python_check_themselves():
    row = experiment.Row("Plain", "none", ("gcn",))
    with pytest.raises(TableError, match=r"row 'Plain': search\.rate must list at least one candidate"):
        experiment.Row("Plain", "dropout", ("gcn",), search={"rate": ()})
    with pytest.raises(TableError, match="seeds must be at least 1, got 0"):
        experiment.Experiment("mine", "Mine", "", "paper", 0, ("gcn",), ("cora",), (row,))
