"""What survives saving, copying and pickling: rates, density, Adam's moments, the stream of views."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rade
from adapting import adapting
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
    other = fresh(model.variant)
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
    assert float(other.controller.density) == float(model.controller.density) > 0
    for name in ("p", "rho", "density", "first", "second", "steps", "skipped"):
        assert torch.equal(getattr(other.controller, name), getattr(model.controller, name)), name
    assert torch.equal(other.generator.get_state(), model.generator.get_state())


@every_way
@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_predictions_are_bit_identical(way, variant):
    model = trained(variant=variant)
    other = WAYS[way](model)
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
    assert torch.equal(other.generator.get_state(), model.generator.get_state())


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


def test_copies_do_not_share_anything():
    model = trained()
    other = copy.deepcopy(model)
    step(other)
    assert other.rates != model.rates
    assert not torch.equal(other.generator.get_state(), model.generator.get_state())
    assert all(a is not b for a, b in zip(model.parameters(), other.parameters()))


def test_a_copy_keeps_its_named_head():
    """The head is remembered by its path: in a copy it is the copy's."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    model = copy.deepcopy(adapting(net, readout=rade.Readout(head=net.head)))
    assert model.readout.head == "head"
    assert model.wrapped.get_submodule(model.readout.head) is not net.head


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
            f"controller.{name}"
            for name in ("calls", "density", "first", "nodes", "p", "rho", "second", "skipped", "steps")
        ),
    ]


def draws_in_another_process(model: rade.RADE) -> list[list[float]]:
    return [model.train()(X, EDGES).tolist() for _ in range(2)]


def test_a_model_can_be_sent_to_a_spawned_process():
    """The state of its generator travels along: the same views are drawn there."""
    model = trained()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(draws_in_another_process, (model,))
    torch.testing.assert_close(torch.tensor(found), torch.tensor(draws_in_another_process(model)))


def test_constant_rates_are_saved_too():
    model = fresh(rule=rade.Constant(p=0.2, rho=1.5))
    model.train()(X, EDGES)
    other = fresh(rule=rade.Constant())
    other.load_state_dict(model.state_dict())
    assert other.rates == model.rates
    assert torch.equal(other.eval()(X, EDGES), model.eval()(X, EDGES))


def test_a_model_prints_that_its_density_is_not_known_yet():
    model = fresh(rule=rade.Constant(p=0.25))
    assert "RateState(p=0.25, rho=0.2, density=unknown until the first graph)" in str(model)
    model.train()(X, EDGES)
    assert f"density={float(model.controller.density):.4g})" in str(model)


def test_a_restored_model_keeps_its_density():
    """It is not taken anew from the first graph after loading."""
    model = by_state_dict(trained())
    density = float(model.controller.density)
    model.train()(X[:10], random_edges(10, 30, seed=3))
    assert float(model.controller.density) == density


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_rates_keep_their_precision_when_the_model_is_cast(dtype):
    """A step of 1e-3 would be lost in bfloat16; device moves still apply."""
    model = trained()
    rates = model.rates
    model.to(dtype)
    assert model.rates == rates
    assert {buffer.dtype for buffer in model.controller.buffers()} == {torch.float64, torch.int64}
    assert next(model.parameters()).dtype == dtype
    assert model.to("meta").controller.p.device.type == "meta"


def test_double_precision_models_adapt():
    model = fresh().double()
    training_step(model, X.double(), EDGES, labels=LABELS)
    assert model.adapt(X.double(), EDGES).dtype == torch.float64
    assert model.eval()(X.double(), EDGES).dtype == torch.float64
