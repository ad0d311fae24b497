"""`rade.compare`: a model of one's own with each method, on the same seeds and splits, and what may be said of it."""

import functools
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, EdgeConv, GCNConv

import rade
from rade.comparison.problems import own_problem
from rade.comparison.work import identity
from rade.data import FixedSplit, RandomSplit, Split, StratifiedFolds
from rade.train import make
from test_golden_training import Pooled, many_graphs, one_graph
from zoo import normal, random_edges, seeded

NODES = 60
SHORT = rade.Training(epochs=3, patience=0)


def in_turn(splits: int) -> Data:
    """Several splits, in the columns of the masks."""
    data = one_graph()
    for name in ("train_mask", "val_mask", "test_mask"):
        data[name] = torch.stack([data[name].roll(k) for k in range(splits)], 1)
    return data


def make_net() -> nn.Module:
    return GCN(6, 8, 2, 3, dropout=0.5)


def same(net: nn.Module) -> nn.Module:
    return net


def blind(net: nn.Module) -> nn.Module:
    """A model that sees nothing: what a bad method looks like."""
    net.register_forward_hook(lambda module, inputs, output: 0 * output)
    return net


def fails(net: nn.Module) -> nn.Module:
    """Ends in NaN in every run with seed 1."""
    if torch.initial_seed() == rade.train.tasks.derive(1, 3):
        net.register_forward_hook(lambda module, inputs, output: output * float("nan"))
    return net


def test_all_methods_on_one_graph():
    """The same seeds give the same numbers, whoever trains beside them."""
    seen, before = list[Any](), torch.get_rng_state()
    found = rade.compare(make_net, one_graph(), seeds=2, training=SHORT, workers=1, progress=seen.append)
    assert torch.equal(before, torch.get_rng_state())  # the global generator is left alone
    assert found.methods == ("none", "drop-edge", "rade", "rade-ofs")
    assert [line.split()[0] for line in found.verdict.splitlines()] == ["rade", "rade-ofs"]
    assert [(run.method, run.seed) for run in found.runs[:5]] == [*((name, 0) for name in found.methods), ("none", 1)]
    assert [one.done for one in seen] == list(range(1, 9))
    assert str(seen[0]).startswith("1/8  none, seed 0: val ")
    assert (found.metric, found.notes) == ("accuracy", ())
    assert found.runs[2].p == rade.RADE(make_net()).rates.p
    alone = rade.compare(make_net, one_graph(), ("rade", "none"), seeds=[1], training=SHORT, workers=1)
    assert alone.reference == "none"
    known = {(run.method, run.seed): (run.val, run.test, run.p, run.q) for run in found.runs}
    for run in alone.runs:
        assert (run.val, run.test, run.p, run.q) == known[run.method, 1]


def test_a_method_that_hurts_is_called_worse():
    """Chance against a task that is nearly solved; the same model under two names is the same in every seed."""
    methods = {"none": same, "again": same, "blind": blind}
    training = rade.Training(epochs=40, patience=0)
    found = rade.compare(make_net, one_graph(), methods, seeds=5, training=training, workers=1)
    worse = found.differences["blind"]
    assert worse.code == "worse"
    assert worse.result.mean < -10
    assert str(worse).startswith("blind is worse than the plain model by ")
    assert str(worse).endswith("; 5 seeds.")
    assert found.verdict == f"again scores as the plain model in each of 5 seeds.\n{worse}"
    assert "blind" in found.table()
    assert str(found).endswith(found.verdict)
    assert [label.get_text() for label in found.plot().axes[0].get_yticklabels()] == ["again", "blind"]
    assert [text.get_text() for text in found.curves().axes[0].get_legend().get_texts()] == ["none", "again", "blind"]
    assert json.loads(json.dumps(found.asdict()))["differences"]["blind"]["verdict"] == "worse"


def test_masks_with_several_splits_are_taken_in_turn():
    data = in_turn(3)
    problem = own_problem(data, SHORT)[0]
    for seed in range(4):
        assert torch.equal(problem.split(seed).test, data.test_mask[:, seed % 3].nonzero().squeeze(1))
    seeds = torch.arange(3)
    found = rade.compare(lambda: Whole(6, 8, 2, 3), data, ("none", "rade"), seeds, training=SHORT, workers=1)
    assert len(found.runs) == 6


class Whole(GCN):
    """Takes the data object."""

    def forward(self, data: Any) -> Any:
        return super().forward(data.x, data.edge_index)


def changed(**parts: Tensor) -> Data:
    return Data(**{**one_graph().to_dict(), **parts})


def labels() -> Tensor:
    """Two labels of a node, some unknown."""
    first = (one_graph().y > 0).float()
    both = torch.stack([first, 1 - first], 1)
    both[::7, 0] = float("nan")
    return both


@pytest.mark.parametrize(
    ("outputs", "y", "told", "metric"),
    [
        (1, (one_graph().y > 0).long(), {}, "accuracy"),
        (2, one_graph().y > 0, {}, "accuracy"),
        (3, one_graph().y.int(), {}, "accuracy"),
        (2, labels(), {}, "micro-f1"),
        (2, labels(), {"metric": "roc-auc"}, "roc-auc"),
        (1, normal(NODES), {"task": "regression"}, "r2"),
    ],
)
def test_tasks(outputs, y, told, metric):
    training, methods = rade.Training(epochs=2, **told), ("none", "drop-edge", "rade", "rade-of", "rade-of-noise")
    found = rade.compare(lambda: GCN(6, 8, 2, outputs), changed(y=y), methods, 1, training=training, workers=1)
    assert (found.metric, len(found.runs)) == (metric, 5)


def as_dataset(graphs: list[Data], splits: Any, **changes: Any) -> rade.data.Dataset:
    """Graphs as `rade.data` has them: no masks, splits beside."""
    like = rade.data.load("csbm" if len(graphs) == 1 else "far-pair")
    return replace(like, graphs=graphs, splits=splits, **{"density": 0.1} | changes)


def test_data_sets_of_rade_bring_splits_task_and_score():
    """The public split for every seed, sparse features as PyG takes them, and the set's own score unless told."""
    data = one_graph()
    data.x = data.x.to_sparse_csr()
    split = own_problem(in_turn(3), SHORT)[0].split(1)
    given = as_dataset([data], FixedSplit(split), metric="micro-f1")
    problem, training = own_problem(given, SHORT)
    assert torch.equal(problem.graphs[0].x, one_graph().x)
    assert data.x.layout is torch.sparse_csr  # the user's own is left alone
    assert torch.equal(problem.split(7).test, split.test)
    assert (training.task, training.metric, problem.ratio, problem.density) == ("multiclass", "micro-f1", 0.0, 0.1)
    assert own_problem(given, rade.Training(metric="accuracy"))[1].metric == "accuracy"
    assert rade.compare(make_net, given, ("none", "rade-of"), 1, training=SHORT, workers=1).metric == "micro-f1"
    assert own_problem(as_dataset([data], RandomSplit(NODES)), SHORT)[0].ratio == pytest.approx(1 / 3)
    nodes = torch.arange(NODES)
    pairs = changed(batch=nodes // 2, edge_index=torch.stack([nodes, nodes ^ 1]))
    assert own_problem(pairs, SHORT)[0].density == 1.0  # of the graphs in the batch


def test_graphs_are_split_officially_or_in_proportion():
    """An official split is kept; other graphs are split in proportion, and so are those of folds."""
    graphs, parts = many_graphs()[:40], torch.arange(40).split([20, 10, 10])
    official = as_dataset(graphs, FixedSplit(Split(*parts)), loss="binary", metric="roc-auc")
    problem, training = own_problem(official, SHORT)
    assert (problem.level, training.metric) == ("graph", "roc-auc")
    assert torch.equal(problem.split(3).val, parts[1])
    assert torch.equal(problem.labels, torch.arange(40) % 2)
    for given in (graphs, as_dataset(graphs, StratifiedFolds(torch.arange(40) % 2))):
        split = own_problem(given, SHORT)[0].split
        assert [len(part) for part in vars(split(3)).values()] == [32, 4, 4]
        assert [int((part % 2).sum()) for part in vars(split(3)).values()] == [16, 2, 2]
        assert sorted(torch.cat(list(vars(split(3)).values())).tolist()) == list(range(40))
        assert not torch.equal(split(3).test, split(4).test)


class OtherName(GCN):
    def forward(self, x: Any, adj: Any) -> Any:
        return super().forward(x, adj)


REFUSED = [
    ({"data": changed(y=torch.zeros(5).long())}, ValueError, "a label for each of its 60 nodes, got 5 in data.y"),
    ({"data": changed(edge_index=torch.tensor([[0, 64], [64, 0]]))}, ValueError, "ids from 0 to 59, got 64"),
    ({"data": changed(test_mask=one_graph().train_mask)}, ValueError, "train_mask and test_mask share 20 nodes"),
    ({"data": in_turn(3).update({"val_mask": in_turn(2).val_mask})}, ValueError, "the masks have 2 and 3 columns"),
    ({"methods": ("none",)}, ValueError, "at least two different methods, got 1: none"),
    ({"methods": "rade-of"}, TypeError, "methods must be several names"),
    ({"methods": ("none", "drop-message")}, ValueError, "DropMessage is for rade's own backbones"),
    ({"methods": {"none": same, "odd": lambda net: 3}}, ValueError, "method 'odd': a method must return a model"),
    ({"seeds": [1, 1]}, ValueError, "seeds must be a number of at least 1, or different"),
    ({"data": Data(x=torch.ones(3, 6), edge_index=random_edges(3, 4))}, ValueError, "needs labels, data.y"),
    ({"data": Data(x=torch.ones(3, 6), edge_index=random_edges(3, 4), y=torch.ones(3))}, ValueError, "RandomNodeSplit"),
    ({"data": many_graphs()[:5]}, ValueError, "at least 10, got 5"),
    ({"data": 5}, TypeError, "expected a PyG Data object, .* or a rade.data set"),
    ({"data": many_graphs(), "make_net": Pooled}, ValueError, r"rates of rade-ofs adapt .* say Training\(pool='sum'\)"),
    ({"make_net": lambda: 5}, TypeError, "make_net must return a torch.nn.Module"),
    ({"make_net": functools.cache(make_net)}, ValueError, "must build a new model on every call"),
    ({"make_net": lambda: GCN(6, 8, 2, 2)}, ValueError, "labels go up to 2, but the model has 2 outputs"),
    ({"make_net": Pooled}, ValueError, "a row of outputs for each of 60 nodes"),
    ({"data": changed(y=torch.full((60,), -1))}, ValueError, "labels of training rows go down to -1"),
    ({"make_net": lambda: OtherName(6, 8, 2, 3)}, ValueError, "the model's forward takes x, adj; it is called with"),
    ({"data": changed(y=normal(NODES))}, ValueError, r"real numbers: say Training\(task='regression'\)"),
    ({"make_net": lambda: EdgeConv(nn.Linear(12, 3))}, ValueError, "method '[a-z-]+': .*EdgeConv"),
]


@pytest.mark.parametrize(("given", "kind", "sentence"), REFUSED, ids=[row[2][:30] for row in REFUSED])
def test_refusals_come_before_training(given, kind, sentence):
    def trained(_: Any) -> None:
        raise AssertionError("nothing may be trained")

    arguments = {"make_net": make_net, "data": one_graph(), "workers": 1, "progress": trained} | given
    with pytest.raises(kind, match=sentence):
        rade.compare(**arguments)


WRONG = {"lr": 0.0, "epochs": 2.5, "task": "clas", "pool": "max", "patience": -1, "epoch": 5}


@pytest.mark.parametrize("field", [{name: value} for name, value in WRONG.items()], ids=WRONG)
def test_training_checks_itself(field):
    with pytest.raises(ValueError, match=r"(?s)validation error for Training.*(Input should be|Unexpected keyword)"):
        rade.Training(**field)


def test_a_run_that_fails_is_told_and_the_others_count():
    methods = {"none": same, "fragile": fails}
    found = rade.compare(make_net, one_graph(), methods, seeds=3, training=SHORT, workers=1)
    assert list(found.scores("fragile")) == [0, 2]
    assert found.differences["fragile"].result.count == 2
    (note,) = found.notes
    assert note.startswith("fragile, seed 1 failed: the loss became nan in epoch 1")
    with pytest.raises(rade.train.RunError, match="no run of 'none' ended well"):
        rade.compare(make_net, one_graph(), {"none": fails, "other": same}, [1], training=SHORT, workers=1)


def test_nothing_that_was_finished_is_lost(tmp_path):
    """Interrupted in the third run, called again: only the rest is trained."""
    methods, store = ("none", "rade-of"), tmp_path / "runs"
    call = functools.partial(rade.compare, make_net, one_graph(), methods, 2, training=SHORT, workers=1, store=store)

    def stop(one: Any) -> None:
        if one.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(progress=stop)
    again: list[Any] = []
    found = call(progress=again.append)
    assert [one.run.seed for one in again] == [1]
    assert [(run.method, run.seed) for run in found.runs] == [(method, seed) for seed in (0, 1) for method in methods]


def test_a_store_tells_apart_whatever_decides_a_run(tmp_path):
    """Equal names and equal weights: what differs is trained anew, what does not is taken."""

    def trained(p: float = 0.1, net: Any = GCN, training: Any = SHORT, data: Any = None) -> int:
        seen: list[Any] = []
        methods, kept = {"none": same, "mine": make("rade-of-fixed", p=p)}, {"store": tmp_path / "runs"}
        given = {"training": training, "workers": 1, "progress": seen.append, **kept}
        rade.compare(lambda: net(6, 8, 2, 3), data or one_graph(), methods, 1, **given)
        return len(seen)

    assert (trained(), trained()) == (2, 0)
    assert trained(p=0.8) == 1
    assert trained(net=functools.partial(GCN, dropout=0.5)) == trained(net=type("Other", (GCN,), {})) == 2
    assert trained(training=rade.Training(epochs=2, patience=0)) == trained(data=in_turn(2)) == 2


def name_with(value: Any) -> str:
    """That of a model with a value which is in no state and in no name."""
    net = seeded(lambda: GCNConv(3, 2))
    net._value = value
    return identity(net)


def power(exponent: float) -> Any:
    return lambda x: x**exponent


PAIRS: dict[str, tuple[Any, Any]] = {
    "lambdas of one line": (lambda x: x.relu(), lambda x: x.tanh()),
    "what a function remembers": (power(1.0), power(2.0)),
    "bfloat16": (torch.zeros(3).bfloat16(), torch.ones(3).bfloat16()),
    "types": (GCN, GCNConv),
    "own modules in a list": ([seeded(lambda: GCNConv(3, 2))], [seeded(lambda: GCNConv(3, 2, normalize=False))]),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_what_is_set_on_a_model_is_part_of_its_name(kind):
    one, other = PAIRS[kind]
    assert name_with(one) == name_with(one) != name_with(other)


NETS = """
import torch
from torch_geometric.nn import MessagePassing
SCALE = 2
class Net(MessagePassing):
    def forward(self, x, edge_index):
        return scaled(self.propagate(edge_index, x=x))
def scaled(x):
    return x * SCALE
"""
NAMES = """
import nets
from rade.comparison.work import identity
class Mine(nets.Net):
    pass
def name():
    return identity(lambda: nets.Net(), Mine, Mine())
print(name())
nets.SCALE = 3
print(name())
"""


@pytest.mark.slow
def test_names_hold_in_other_processes_until_a_helper_of_a_helper_changes(start, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(rade.__file__).parents[1]))
    found = []
    for seed, moved in (("1", ""), ("2", "# moved")):
        (tmp_path / "nets.py").write_text(moved + NETS)
        (tmp_path / "script.py").write_text(moved + NAMES)
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(start("-B", "script.py").communicate(timeout=100))
    (first, _), (again, _) = found
    assert first == again, found
    assert len(set(first.split())) == 2, found


SCRIPT = """
import rade, test_compare as t
def make_net(): return t.GCN(6, 8, 2, 3, dropout=0.5)
found = rade.compare(make_net, t.one_graph(), ("none", "rade-of"), 2, training=t.SHORT, workers=2)
print([(run.method, run.seed, run.test) for run in found.runs], found.notes)
"""


def test_what_cannot_travel_is_run_here_and_has_no_name_in_a_store(tmp_path):
    lock = threading.Lock()

    def locked(net: nn.Module) -> nn.Module:
        with lock:
            return net

    with pytest.warns(UserWarning, match=r"one after another in this process, .*cannot pickle"):
        found = rade.compare(make_net, one_graph(), {"none": same, "locked": locked}, 1, training=SHORT, workers=2)
    assert len(found.runs) == 2
    assert found.notes[0].startswith("the runs went one after another")
    with pytest.raises(ValueError, match=r"store= needs a pickle of model, method and data .*: cannot pickle"):
        rade.compare(make_net, one_graph(), {"none": same, "locked": locked}, 1, workers=1, store=tmp_path / "runs")


@pytest.mark.slow
def test_processes_give_the_numbers_of_one(start, tmp_path, monkeypatch):
    """Whatever the threads of this process: a script without a guard, whose functions nobody else can import."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        here = rade.compare(make_net, one_graph(), ("none", "rade-of"), 2, training=SHORT, workers=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    expected = [(run.method, run.seed, run.test) for run in here.runs]
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(rade.__file__).parents[1]}")
    out, err = start("script.py").communicate(timeout=300)
    assert out.strip() == f"{expected} ()", err[-2000:]
