"""Wrong command lines, settings files and tables: one sentence, exit code 2, no traceback."""

import pytest
from tests.report.synthetic import row, save

TABLE = """
title = "Mine"
seeds = 3
backbones = ["gcn"]
datasets = ["csbm", "cora"]

[[rows]]
name = "Plain"
method = "none"
settings = { layers = 3, hidden = { csbm = 16 } }
published.gcn.csbm = [81, 0.5]

[[rows]]
name = "DropEdge"
method = "drop-edge"
search = { rate = [0.1, 0.2] }
"""


@pytest.fixture
def refused(rade, tmp_path, monkeypatch):
    """Call a command in a folder with a table, a text form of a store, a file, an empty folder and a report."""
    monkeypatch.setattr("rade.experiment.grid._PATIENCE", 0.5)
    for name, content in {
        "mine.toml": TABLE,
        "broken.toml": "= =",
        "long.toml": "hidden = " + "9" * 5000,
        "deep.toml": "a = " + "[" * 3000,
        "file": "notes",
        "report/results.md": "old",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "empty").mkdir()

    def call(arguments, sentence):
        if "text" in arguments:
            save([row(0.5)], tmp_path / "text")
        code, _, err = rade(*arguments.split())
        assert (code, err.count("\n"), err[:7]) == (2, 1, "error: ")
        assert sentence in err
        assert (tmp_path / "report/results.md").read_text() == "old"

    return call


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("trian", "No such command 'trian'"),
        ("train --dataset coar", "unknown data set 'coar'; did you mean 'cora'?"),
        ("train --method none,rade-of-fixed --penalty 2", "penalty is no option of none, rade-of-fixed; it belongs"),
        ("train --fanouts 3,3 --batch-size 0", "fanouts and a batch size of 0 contradict each other"),
        ("train --batch-size 9 --fanouts 3 --method none", "2 layers need as many fan-outs, got [3]; set --fanouts"),
        ("train --epochs many", "Invalid value for '--epochs'"),
        ("train --out file/out", "cannot write to file/out: Not a directory"),
        ("train --device cuda:77", "device must name a device that PyTorch can use here, got 'cuda:77'"),
        ("train --config missing.toml", "cannot read missing.toml: No such file"),
        ("train --config long.toml", "long.toml is not valid TOML"),
        ("train --config deep.toml", "deep.toml is not valid TOML"),
        ("train --set method=1", "method must be a name or a list of names, got 1"),
        ("train --set method=", "method must name at least one method, got ''; known: none"),
        ("train --set runs=true", "runs must be a whole number from 1 to 1000000, got True"),
        ("train --set rho=inf", "rho must be a finite number of at most 1e+09, got inf"),
        ("train --set seed=18446744073709551616", "seed: Input should be less than or equal to 4611686018427387904"),
        ("train --set epochs", "--set expects NAME=VALUE, got 'epochs'"),
        ("train --set epohcs=3", "unknown setting 'epohcs'; did you mean 'epochs'?"),
        ("train --epochs 1 --set pool=sum", "csbm is a data set of nodes: pool must be none, got 'sum'"),
        ("train --dataset far-pair --set pool=none", "far-pair is a data set of graphs: pool must be sum or mean"),
        ("train --run 1 --runs 2", "run and runs contradict each other"),
        ("train --protocol relased", "unknown protocol 'relased'; did you mean 'released'"),
        ("train --set backbone=['gcn']", "backbone must be one name, got ['gcn']"),
        ("train --dataset far-pair --batch-size 0", "training on graphs needs a batch size of at least 1, got 0"),
        ("train --fanouts 5,5", "fanouts need neighbor sampling on one graph"),
        ("train --method rade-of --set nu=3", "nu is no option of rade-of; it belongs to rade-of-noise"),
        ("train --method drop-edge --rate 1", "the drop rate must lie in [0, 1), got 1.0"),
        ("train --method rade-of --set share_view=1", "share_view must be true or false, got 1"),
        ("train --method rade-of --set max_p=high", "max_p must be a number, got 'high'"),
        ("train --method rade-of --set adapt_every=hour", "adapt_every must be one of 'batch', 'epoch', got"),
        ("train --set labels_per_class=1 --set train_share=0.5", "labels_per_class and train_share contradict each"),
        ("train --set train_items=1000 --method none", "train_items must be at most"),
        ("train --method .relative:x", "cannot be imported: the 'package' argument is required"),
        ("train --method rade.train:Method", "cannot be imported: Can't instantiate abstract class Method"),
        ("train --method no_such_module:x", "cannot be imported: No module named 'no_such_module'"),
        ("train --resume --overwrite", "contradict each other"),
        ("train --method none --set labels_per_class=999", "labels_per_class must be at most 20 on csbm, whose class"),
        ("demo --seeds 0", "Invalid value for '--seeds'"),
        ("predict nowhere", "there is no file nowhere/model.pt"),
        ("datasets --data-root ~nosuchuser", "names a user that this machine does not know"),
        ("datasets import", "Missing argument"),
        ("datasets import nowhere", "the mirror 'nowhere' is not a folder"),
        ("datasets import . cora", "has no file of Cora; expected for example Cora/raw/ind.cora"),
        ("diagnose runs/none", "there is no file runs/none/model.pt; is this the folder of a finished run?"),
        ("reproduce node-gnc", "unknown table 'node-gnc'; did you mean 'node-gcn'? Known: ablations-gat, "),
        ("reproduce broken.toml", "broken.toml is not valid TOML"),
        ("reproduce demo --datasets cora", "unknown data set of these tables 'cora'"),
        ("reproduce demo --methods rade", "unknown method of these tables 'rade'"),
        ("reproduce demo --set epochs=0", "epochs: Input should be greater than or equal to 1, got 0"),
        ("reproduce demo --set threads=2", "--set threads has no effect here; the table or an option"),
        ("reproduce demo --seeds 0", "Invalid value for '--seeds'"),
        ("reproduce demo --store file/store", "cannot write to file/store.work: Not a directory; choose another"),
        ("reproduce demo --store file", "file is damaged or was not written by rade"),
        ("reproduce demo --store empty", "empty is a folder without runs.csv"),
        ("reproduce demo --store text", "text is the text form of a store, which is not written to"),
        ("reproduce demo --scheduler tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("reproduce demo --scheduler nonsense://x", "no Dask scheduler answers at nonsense://x"),
        ("reproduce mine.toml --datasets cora --dry-run --data-root empty", "Cora needs"),
        ("results nowhere", "there is no store at nowhere; rade reproduce makes one"),
        ("results text --method none,foo", "unknown method in text 'foo'"),
        ("results text --protocol foo", "unknown protocol in text 'foo'"),
        ("results text --dataset mutag", "unknown data set in text 'mutag'"),
        ("results text export new --method none", "export takes all runs; filters are for the list"),
        ("results one two", "one store at a time, got one, two; merge OTHER… adds others to it"),
        ("results merge", "merge needs at least one store or folder"),
        ("results text export", "export needs one folder"),
        ("results text export file", "cannot write to file"),
        ("report text --format ,", "unknown format ''. Known: html, md, tex"),
        ("report text --format pdf", "unknown format 'pdf'. Known: html, md, tex"),
        ("report text --format md --out file/below", "cannot write to file/below: Not a directory; choose another"),
    ],
    ids=lambda text: text[:50],
)
def test_command_lines(arguments, sentence, refused):
    refused(arguments, sentence)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('title = "Mine"\n', "", "title: Field required"),
        ("seeds = 3", "seeds = 3\nsedes = 3", "sedes: Unexpected keyword argument, got 3"),
        ("seeds = 3", 'seeds = 3\nmeasure = "miles"', "measure must be one of score, "),
        ('["csbm", "cora"]', "[]", "datasets: Tuple should have at least 1 item after validation"),
        ('["csbm", "cora"]', '["csbm", "csbm"]', "datasets: names must differ, but 'csbm' is there twice"),
        ('"DropEdge"', '"Plain"', "names must differ, but 'Plain' is there twice"),
        ('name = "DropEdge"', 'name = ""', "rows.1.name: String should have at least 1 character"),
        ("{ csbm = 16 }", "{ cs = 16 }", "row 'Plain': settings.hidden names the data set 'cs', which is none of csbm"),
        ("layers = 3,", 'backbone = "gat",', "rows.0: 'backbone' is no setting of a row"),
        ("layers = 3,", "epochs = -5,", "table mine, row 'Plain': epochs: Input should be greater"),
        ("rate = [0.1, 0.2]", "rate = 0.1", "rows.1.search.rate: Input should be a valid tuple, got 0.1"),
        ("search =", "settings.rate = 0.1\nsearch =", "'rate' is in settings and in search; keep one"),
        ("published.gcn", "published.gat", "published names the backbone 'gat', which is none of gcn"),
        ("[81, 0.5]", "[81]", "rows.0.published.gcn.csbm.1: Field required"),
        ("[[rows]]", "[vary]\nepochs = [1]\n[[rows]]", "'Plain': a table with [vary] has no published numbers"),
    ],
)
def test_tables(old, new, sentence, refused, tmp_path):
    assert old in TABLE
    (tmp_path / "mine.toml").write_text(TABLE.replace(old, new, 1))
    refused("reproduce mine.toml --datasets csbm", sentence)
