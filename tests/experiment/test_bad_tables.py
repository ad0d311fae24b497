"""What is wrong in a table is told in one sentence, with file, row and key."""

from __future__ import annotations

import pytest

from experiment.own import GOOD, written
from rade import experiment
from rade.experiment import TableError


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
