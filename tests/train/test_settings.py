"""Protocol values, overrides, and methods of one's own; what cannot be meant is in `tests/cli/test_wrong_input.py`."""

from itertools import product

import pytest

from rade.data import names
from rade.train import SettingsError, resolve, train_run
from rade.train.methods import METHODS
from rade.train.protocol import PROTOCOLS, protocol
from rade.train.settings import make_order

PAPER = {"p": 0.5, "rho": 0.5, "penalty": 1.0, "rate_lr": 0.001, "share_view": True}


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        ("paper cora gcn dropout", {"hidden": 512, "epochs": 500, "patience": 100, "batch_size": 0, "rate": 0.7}),
        ("paper cs gin-lin none", {"hidden": 256, "epochs": 1500}),
        ("paper ogbn-arxiv gin none", {"batch_size": 2048, "eval_batch_size": 4096, "fanouts": (15, 10)}),
        ("paper mutag gin rade-ofs", {"pool": "sum", "schedule": "step", **PAPER, "penalty": 0.1}),
        ("paper peptides-func gcn none", {"optimizer": "adamw", "schedule": "plateau", "pool": "mean"}),
        ("paper cora gat rade-of", {"hidden": 256, **PAPER}),
        ("paper cora gcn rade-of-drop", {"penalty": 1.0, "rho": None}),
        ("paper cora gcn rade-of-fixed", {"p": 0.5, "rho": 0.5, "penalty": None}),
        ("released cora gcn rade-of", {"projection": True, "lr": 0.001, "share_view": False, "data_gradient": "clean"}),
        ("released mutag gcn rade-of", {"projection": False, "lr": 0.01, "adapt_every": "epoch", "max_p": 0.9}),
        ("released ogbg-molhiv gcn rade-of", {"lr": 0.001, "batch_size": 32, "patience": 0, "adapt_every": "epoch"}),
    ],
)
def test_a_protocol_has_the_published_values(asked, values):
    """None: an option that the method fixes by its name, or lacks, is left to the name."""
    source, dataset, backbone, method = asked.split()
    settings = resolve(dataset, backbone, method, source)
    found = settings.model_dump() | settings.options
    assert {name: found.get(name) for name in values} == values


@pytest.mark.parametrize("source", PROTOCOLS)
def test_every_data_set_resolves_for_every_method(source):
    assert set(names()) <= set(protocol())
    for dataset, method in product(names(), METHODS):
        settings = resolve(dataset, "gat", method, source)
        assert settings.options.keys() <= METHODS[method].options.keys(), (dataset, method)
        assert (settings.dataset, settings.method) == (dataset, method)


def test_the_released_protocol_is_the_default():
    assert resolve("cora") == resolve("cora", protocol="released")
    order = make_order({})
    assert (order.settings[0].protocol, order.settings[0].dataset) == ("released", "csbm")
    assert [one.method for one in order.settings] == ["none", "dropout", "drop-edge", "rade", "rade-of", "rade-ofs"]
    assert resolve("flickr", "gcn", "none", layers=4).fanouts == (15, 10, 10, 10)  # the last fan-out repeats


def test_an_option_reaches_the_methods_that_have_it():
    order = make_order({"method": ["none,drop-edge", "rade-of"], "p": 0.3, "rate": 0.1, "runs": 2})
    assert [settings.method for settings in order.settings] == ["none", "drop-edge", "rade-of"]
    assert [settings.options.get("p") for settings in order.settings] == [None, None, 0.3]
    assert (order.settings[1].options, order.runs) == ({"rate": 0.1}, range(2))


OWN = """
from dataclasses import dataclass
from rade.train import Method

@dataclass(frozen=True)
class Smooth(Method):
    weight: float = 0.1
    def around(self, net, context):
        return net
    def penalty(self, net, data, logits):
        return self.weight * logits.square().mean()

value = Smooth(0.5)
"""


def test_a_method_of_ones_own_is_named_by_its_module(papers, tmp_path, monkeypatch):
    """Beside the working folder, by class or by value, with its fields as settings; anything else is a sentence."""
    (tmp_path / "own_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    order = make_order({"method": "none,own_methods:Smooth,own_methods:value", "weight": 0.3})
    assert [settings.options for settings in order.settings] == [{}, {"weight": 0.3}, {"weight": 0.3}]
    assert resolve("csbm", "gcn", "own_methods:value").all_options == {"weight": 0.5}
    assert "--method own_methods:Smooth" in order.settings[1].command(0, 1)
    asked = {"none": {}, "own_methods:Smooth": {"weight": 0.0}, "own_methods:value": {}}
    plans = [resolve("csbm", "gcn", method, epochs=2, hidden=8, **more) for method, more in asked.items()]
    plain, weak, strong = (train_run(papers, plan, 0, tmp_path / plan.method[-5:]) for plan in plans)
    assert plain.history["loss"] == weak.history["loss"] < strong.history["loss"]  # the method's term is part of it
    for name, sentence in {
        "own_methods:Missing": "cannot be imported: module 'own_methods' has no attribute 'Missing'",
        "own_methods:dataclass": "must be a rade.train.Method, got function",
    }.items():
        with pytest.raises(SettingsError, match=sentence):
            make_order({"method": name})
