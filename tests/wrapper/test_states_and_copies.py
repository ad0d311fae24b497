"""What survives saving, copying and pickling: rates, density, Adam's moments, the stream of views."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

import rade
from adapting import adapting
from own_rule import Slow
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded, training_step

X, EDGES = normal(30, 8), random_edges(30, 60)
LABELS = torch.arange(30) % 3


def fresh(variant: str = "ofs", seed: int = 9, layer: str = "GCNConv", **options: Any) -> rade.RADE:
    generator = torch.Generator().manual_seed(seed)
    net = seeded(lambda: Net({**LAYERS, **ATTENTION}[layer]), seed)
    return adapting(net, variant, generator=generator, **options)


def trained(steps: int = 3, **options: Any) -> rade.RADE:
    model = fresh(seed=0, **options)
    for _ in range(steps):
        step(model)
    return model


def step(model: rade.RADE) -> None:
    training_step(model, X, EDGES, labels=LABELS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.05 * parameter.grad
    model.adapt(X, EDGES)


def by_state_dict(model: rade.RADE) -> rade.RADE:
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    other = fresh(model.rade.variant)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    return other


def by_pickle(model: rade.RADE) -> rade.RADE:
    return pickle.loads(pickle.dumps(model))


def by_torch_save(model: rade.RADE) -> rade.RADE:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


WAYS: dict[str, Callable[[rade.RADE], rade.RADE]] = {
    "state_dict": by_state_dict,
    "pickle": by_pickle,
    "torch.save": by_torch_save,
}
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
def test_all_of_the_state_survives(way):
    model = trained()
    other = WAYS[way](model)
    assert other.rates == model.rates
    assert float(other.rate_state.density) == float(model.rate_state.density) > 0
    for name in ("p", "rho", "density", "first", "second", "steps", "skipped"):
        assert torch.equal(getattr(other.rate_state, name), getattr(model.rate_state, name)), name
    assert torch.equal(other._context.generator.get_state(), model._context.generator.get_state())


@every_way
@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_predictions_are_the_same(way, variant):
    """Bit for bit once both know the graph; before, PyG sums for RADE-OF, in another order."""
    model = trained(variant=variant)
    other = WAYS[way](model)
    torch.testing.assert_close(other.eval()(X, EDGES), model.eval()(X, EDGES))
    other.train()(X, EDGES)
    assert torch.equal(other.eval()(X, EDGES), model.eval()(X, EDGES))


@every_way
def test_training_goes_on_bit_identically(way):
    """Three more steps of both: the same views, gradients, rates and parameters; neither disturbs the other."""
    model = trained()
    other = WAYS[way](model)
    for _ in range(3):
        step(model)
    for _ in range(3):
        step(other)
    assert other.rates == model.rates
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(other.buffers(), model.buffers()))
    assert torch.equal(other._context.generator.get_state(), model._context.generator.get_state())


@every_way
@pytest.mark.parametrize("layer", ["GATConv-heads", "GINConv", "SAGEConv"])
def test_other_layers_survive(way, layer):
    model = trained(layer=layer)
    if way == "state_dict":
        other = fresh(layer=layer)
        other.load_state_dict(model.state_dict())
    else:
        other = WAYS[way](model)
    assert torch.equal(other.eval()(X, EDGES), model.eval()(X, EDGES))


def test_a_copy_keeps_its_named_head():
    """The head is remembered by its path: in a copy it is the copy's."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    model = copy.deepcopy(adapting(net, readout=rade.Readout(head=net.head)))
    assert model.rade.readout.head == "head"
    assert model.wrapped.get_submodule(model.rade.readout.head) is not net.head


def test_keys_of_the_wrapped_model_are_stable():
    """Checkpoints of the plain model load into the wrapped one, and back."""
    plain = Net(LAYERS["GCNConv"])
    keys = list(plain.state_dict())
    model = trained()
    assert list(model.wrapped.state_dict()) == keys
    model.wrapped.load_state_dict(plain.state_dict())
    inside = [key.removeprefix("wrapped.") for key in model.state_dict() if key.startswith("wrapped.")]
    assert inside == keys
    assert sorted(key for key in model.state_dict() if not key.startswith("wrapped.")) == [
        "_extra_state",
        *(
            f"rate_state.{name}"
            for name in ("calls", "density", "first", "nodes", "p", "rho", "second", "skipped", "steps")
        ),
    ]


def test_a_model_prints_that_its_density_is_not_known_yet():
    model = fresh(rule=rade.Constant(p=0.25))
    assert "RateState(p=0.25, rho=0.2, density=unknown until the first graph)" in str(model)
    model.train()(X, EDGES)
    assert f"density={float(model.rate_state.density):.4g})" in str(model)


@pytest.mark.parametrize("way", [copy.deepcopy, by_pickle, lambda model: AveragedModel(model).module])
def test_copies_start_with_empty_memories(way):
    """Graphs and moments stay with the model, and so does what was said."""
    model = trained()
    other = way(model)
    assert len(model._context._graphs) > 0
    assert (len(other._context._graphs), len(other._context._distributions)) == (0, 0)
    assert other._latest is other._context.current is other._context.reached is None
    assert other._meeting.warnings._said == set()
    assert other.wrapped.convs[0]._context is other._context


def test_graphs_are_recalled_by_memory_and_forgotten_with_it():
    model, edges = fresh(density=0.2).eval(), EDGES.clone()  # in training the last call is kept for its rate step
    model(X, edges)
    model(X, edges.detach())
    model(X, edges[:, :])
    graphs = model._context._graphs
    assert len(graphs) == 1
    (before,) = (value for _, _, value in graphs._kept.values())
    edges[:, :] = EDGES  # written to, with the same numbers: another version
    model(X, edges)
    (after,) = (value for _, _, value in graphs._kept.values())
    assert after is not before
    del edges
    gc.collect()
    assert len(graphs) == 0


def test_rates_that_move_do_not_fill_the_memory():
    model = fresh(density=0.2).eval()
    for factor in range(9):
        model.by(rade.Expected(rates=rade.Rates(0.1 * factor, 0.1)))(X, EDGES)
    assert len(model._context._distributions) <= 4


def test_an_average_learns_beside_its_model():
    """`AveragedModel` has the mean parameters, its own views, and predicts like any model."""
    model = trained()
    average = AveragedModel(model)
    for _ in range(2):
        step(model)
        average.update_parameters(model)
    assert average(X, EDGES).shape == (30, 3)
    assert not torch.equal(average.train()(X, EDGES), model.train()(X, EDGES))
    mean = average.module.wrapped.head.weight
    assert not torch.equal(mean, model.wrapped.head.weight)


@pytest.mark.parametrize("way", [copy.deepcopy, by_pickle, by_torch_save])
def test_copies_have_the_rates_of_now(way):
    """Once a copy took the numbers of a step before: its tensors count changes anew."""
    model = fresh(rule=Slow(p=0.3))
    for _ in range(4):
        step(model)
        other = way(model)
        assert other.rates == model.rates
        assert other.rates.p == float(other.rate_state.p)


def test_a_rule_of_ones_own_keeps_its_memory():
    """It is a buffer like the rates."""
    model = fresh(rule=Slow(p=0.3))
    for _ in range(2):
        step(model)
    other = fresh(rule=Slow(p=0.3))
    other.load_state_dict(model.state_dict())
    again = by_pickle(model)
    for one in (model, other, again):
        step(one)
    assert float(model.rate_state.average) == float(other.rate_state.average) == float(again.rate_state.average) > 0
    assert model.rates == other.rates == again.rates


def test_reset_parameters_takes_the_rates_along():
    class Resets(Net):
        def reset_parameters(self) -> None:
            for part in (*self.convs, self.head):
                part.reset_parameters()

    model = adapting(Resets(LAYERS["GCNConv"]), density=0.2)
    step(model)
    model.reset_parameters()
    assert model.rates == rade.Rates(0.5, 0.1)
    assert not hasattr(trained(), "reset_parameters")
