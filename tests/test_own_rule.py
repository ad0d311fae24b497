"""A user's rule with memory trains, is saved, copied and pickled like the library's own; under DDP see test_ddp.py."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import rade
from own_rule import Slow
from zoo import LAYERS, Net, normal, random_edges, seeded, training_step

X, EDGES = normal(20, 8), random_edges(20, 40)
LABELS = torch.arange(20) % 3


def fresh(rule: rade.Rule = Slow(p=0.3)) -> rade.RADE:  # noqa: B008 - a frozen value
    return rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), rule=rule, generator=torch.Generator().manual_seed(0))


def step(model: rade.RADE) -> float:
    """One training and one rate step; the norm of the gradient between them."""
    training_step(model, X, EDGES, labels=LABELS)
    norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).double().norm()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.05 * parameter.grad
    model.adapt(X, EDGES)
    return float(norm)


def test_the_rule_decides_the_rates():
    model = fresh()
    assert model.rates.p == 0.3
    average = 0.0
    for _ in range(3):
        average = 0.5 * average + 0.5 * step(model)
        assert float(model.controller.average) == pytest.approx(average, rel=1e-5)
        assert model.rates.p == pytest.approx(average / (1 + average), rel=1e-5)
    assert model.rates.q == pytest.approx(0.5 * float(model.controller.density))
    keys = [key for key in model.state_dict() if key.startswith("controller.")]
    own = ("average", "calls", "density", "nodes", "p", "rho")
    assert sorted(keys) == [f"controller.{name}" for name in own]


def by_state_dict(model: rade.RADE) -> rade.RADE:
    other = fresh()
    other.load_state_dict(model.state_dict())
    return other


WAYS: dict[str, Callable[[rade.RADE], rade.RADE]] = {
    "state_dict": by_state_dict,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("way", WAYS)
def test_its_memory_survives(way):
    model = fresh()
    for _ in range(2):
        step(model)
    other = WAYS[way](model)
    assert other.rule == model.rule == Slow(p=0.3)
    assert torch.equal(other.controller.average, model.controller.average)
    assert [step(model) for _ in range(2)] == [step(other) for _ in range(2)]
    assert other.rates == model.rates
    assert other.controller.average is not model.controller.average


def test_its_memory_keeps_its_precision():
    model = fresh()
    step(model)
    average = float(model.controller.average)
    assert float(model.to(torch.bfloat16).controller.average) == average


def test_a_buffer_is_written_in_place():
    """References to it stay live, as with parameters."""
    model = fresh()
    average = model.controller.average
    step(model)
    assert model.controller.average is average
    assert float(average) > 0


@dataclass(frozen=True)
class Forgets(Slow):
    """Returns less than it was given."""

    def step(self, state: Any, *rest: Any) -> Any:
        return {name: value for name, value in state.items() if name != "average"}


@dataclass(frozen=True)
class Rateless(Slow):
    """Has no add rate."""

    def init(self) -> Any:
        return {"p": super().init()["p"]}


@dataclass(frozen=True)
class Curious(Slow):
    """Looks at what it did not name."""

    reads = ()


@dataclass(frozen=True)
class Nothing(Slow):
    """Forgets to return."""

    def step(self, state: Any, density: Any, seen: Any) -> Any:
        pass


@dataclass(frozen=True)
class Numbers(Slow):
    """Returns numbers instead of tensors, which is as good."""

    def step(self, state: Any, density: Any, seen: Any) -> Any:
        return dict.fromkeys(state, 0.25)


def test_rules_that_break_the_contract_get_a_sentence():
    with pytest.raises(ValueError, match=r"looks at data_norm without having said so: put reads = \('data_norm',\)"):
        step(fresh(Curious()))
    with pytest.raises(ValueError, match=r"Rateless.init must return p and rho, but rho is missing"):
        fresh(Rateless())
    with pytest.raises(ValueError, match=r"Forgets.step must return the names of init, p, rho, average; got p, rho"):
        step(fresh(Forgets()))
    with pytest.raises(ValueError, match=r"Nothing.step must return a dict of the next p, rho, average; got None"):
        step(fresh(Nothing()))
    plain = fresh(Numbers())
    step(plain)
    assert plain.rates.p == 0.25
    with pytest.raises(ValueError, match=r"drop rate p must lie in \[0, 1\), got 1"):
        replace(Slow(), p=1.0)


def test_a_rule_that_reads_what_is_not_there_is_refused():
    class Wrong(Slow):
        reads = ("data_nrm",)

    with pytest.raises(ValueError, match="what a rule reads must be one of 'regulariser', 'data_norm', 'logits', got"):
        Wrong()
