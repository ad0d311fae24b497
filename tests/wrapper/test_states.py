"""What survives saving, copying and pickling: rates, density, Adam's moments, the stream of views."""

import copy
import gc
import io
import pickle
from typing import Any

import pytest
import torch
from torch.optim.swa_utils import AveragedModel
from torch_geometric.nn import GCN

import rade
from own_rule import Slow
from zoo import EDGES, EVERY, LABELS, LAYERS, NODES, Net, TwoHeads, X, adapting, seeded, training_step, wrapped


def fresh(variant: str = "ofs", seed: int = 9, layer: str = "GCNConv", **options: Any) -> rade.RADE:
    return adapting(seeded(lambda: Net(EVERY[layer]), seed), variant, seed=seed, **options)


def step(model: rade.RADE) -> None:
    training_step(model, X, EDGES, labels=LABELS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.05 * parameter.grad
    model.adapt(X, EDGES)


def trained(steps: int = 3, **options: Any) -> rade.RADE:
    model = fresh(seed=0, **options)
    for _ in range(steps):
        step(model)
    return model


def by_state_dict(model: rade.RADE, **options: Any) -> rade.RADE:
    """That of a module around it, as Lightning's are."""
    buffer = io.BytesIO()
    torch.save(torch.nn.ModuleList([model]).state_dict(), buffer)
    buffer.seek(0)
    other = fresh(model.rade.variant, rule=model.rade.rule, **options)
    torch.nn.ModuleList([other]).load_state_dict(torch.load(buffer, weights_only=True))
    return other


def by_pickle(model: rade.RADE, **_: Any) -> rade.RADE:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("way", [by_state_dict, by_pickle])
@pytest.mark.parametrize(
    "options",
    [{}, {"variant": "of", "layer": "GATConv-heads"}, {"rule": Slow(p=0.3)}],
    ids=["RADE-OFS", "RADE-OF, GAT", "own rule"],
)
def test_training_goes_on_bit_identically(way, options):
    """Three more steps of both: the same views, gradients, rates and parameters; neither disturbs the other."""
    model = trained(**options)
    other = way(model, layer=options.get("layer", "GCNConv"))
    assert other.rates == model.rates
    torch.testing.assert_close(other.eval()(X, EDGES), model.eval()(X, EDGES))
    for one in (model, other):
        for _ in range(3):
            step(one)
    assert other.rates == model.rates
    for kind in (torch.nn.Module.parameters, torch.nn.Module.buffers):
        assert all(torch.equal(a, b) or bool(a.isnan().all()) for a, b in zip(kind(other), kind(model)))
    assert torch.equal(other._context.generator.get_state(), model._context.generator.get_state())
    assert torch.equal(other.eval()(X, EDGES), model.eval()(X, EDGES))


def test_a_copy_keeps_its_named_head():
    """The head is remembered by its path: in a copy it is the copy's. Of two, only the named one is known."""
    net = seeded(TwoHeads)
    model = copy.deepcopy(adapting(net, readout=rade.Readout(head=net.head)))
    assert model.rade.readout.head == "head"
    assert model.wrapped.get_submodule(model.rade.readout.head) is not net.head
    step(model)
    assert int(model.rate_state.steps) == 1


def test_keys_of_the_wrapped_model_are_stable():
    """Checkpoints of the plain model load into what is wrapped, and back."""
    model, keys = trained(), list(Net(LAYERS["GCNConv"]).state_dict())
    assert [key.removeprefix("wrapped.") for key in model.state_dict() if key.startswith("wrapped.")] == keys
    names = ("calls", "density", "first", "nodes", "p", "rho", "second", "skipped", "steps")
    own = sorted(key for key in model.state_dict() if not key.startswith("wrapped."))
    assert own == ["_extra_state", *(f"rate_state.{name}" for name in names)]


@pytest.mark.parametrize("way", [copy.deepcopy, by_pickle, lambda model: AveragedModel(model).module])
def test_copies_have_the_rates_of_now_and_keep_nothing_of_the_model(way):
    """Its graphs stay with it, and its rates are read anew: tensors of a copy count their changes from 0."""
    model = trained(steps=1, rule=Slow(p=0.3))
    model.load_state_dict(model.state_dict())  # writes to its tensors for the second time, below to those of the copy
    assert way(model).rates == model.rates
    other = way(model)
    step(model)
    other.load_state_dict(model.state_dict())
    assert other.rates == model.rates
    assert (len(model._context._graphs), len(other._context._graphs)) == (1, 0)
    assert other.wrapped.convs[0]._context is other._context


def test_graphs_are_recalled_by_memory_and_forgotten_with_it():
    """In training the last call is kept for its rate step."""
    model, edges = fresh(density=0.2).eval(), EDGES.clone()
    for given in (edges, edges.detach(), edges[:, :]):
        before = model(X, given)
    assert len(model._context._graphs) == 1
    edges.copy_((EDGES + 1) % NODES)  # written to: another version
    assert not torch.equal(model(X, edges), before)
    del edges, given
    gc.collect()
    assert len(model._context._graphs) == 0


def test_rates_that_move_do_not_fill_the_memory():
    model = fresh(density=0.2).eval()
    for factor in range(9):
        model.by(rade.Expected(rates=rade.Rates(0.1 * factor, 0.1)))(X, EDGES)
    assert len(model._context._distributions) <= 4


def test_reset_parameters_takes_the_rates_along():
    model = adapting(seeded(lambda: GCN(8, 6, 2, 3)), density=0.2)
    step(model)
    model.reset_parameters()
    assert model.rates == rade.Rates(0.5, 0.1)
    assert not hasattr(trained(), "reset_parameters")


def test_the_mean_of_epochs_loads():
    """A state is tensors: whoever clones them, moves them or averages them in double precision may load them."""
    model = wrapped().train()
    model(X, EDGES)
    mean = {key: (value.double() + value.clone().double()) / 2 for key, value in model.state_dict().items()}
    mean["wrapped.convs.0.bias"] += 0.5
    model.load_state_dict(mean)
    torch.testing.assert_close(model.wrapped.convs[0].bias.double(), mean["wrapped.convs.0.bias"])


@pytest.mark.parametrize(("one", "other"), [("ofs", "of"), ("of", "ofs")])
def test_a_state_of_the_other_variant_is_refused(one, other):
    saved, model = wrapped(None, one), wrapped(None, other)
    with torch.no_grad():
        saved.wrapped.convs[0].bias.fill_(1.0)
    with pytest.raises(RuntimeError, match=rf"variant '{one}'.*'{other}'.*RADE\(model, '{one}'\)"):
        model.load_state_dict(saved.state_dict())
    assert not model.wrapped.convs[0].bias.any()  # nothing was loaded


def test_a_deep_copy_draws_other_views_and_does_not_change_what_the_model_draws():
    model, alone = wrapped().train(), wrapped().train()
    copies = [model, copy.deepcopy(model), copy.deepcopy(model), AveragedModel(model).module]
    drawn = [one.train()(X, EDGES) for one in copies]
    assert torch.equal(drawn[0], alone(X, EDGES))
    assert not any(torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
    assert torch.equal(copies[1].eval()(X, EDGES), model.eval()(X, EDGES))


def test_reverting_warns_where_predictions_change():
    model = wrapped(None, "ofs").train()
    model(X, EDGES)
    with pytest.warns(UserWarning, match=r"predictions change.*model\.eval\(\)"):
        rade.revert(model)
    for still in (wrapped(None, "of"), wrapped(None, "ofs", rule=rade.Constant(0.2, 0.0))):
        still.train()(X, EDGES)
        rade.revert(still)
