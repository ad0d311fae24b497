"""The values that `RADE` is made of: plain, comparable, printable, and found by flat names."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import torch

import rade
from rade.train.methods import RandomAddDrop
from rade.wrapper.settings import FLAT, HOMES, KINDS, flat, from_flat
from zoo import LAYERS, Net

VALUES: dict[str, tuple[Any, Any, str]] = {  # a value, one that differs, how the first prints
    "GradNorm": (
        rade.GradNorm(p=0.2, penalty=0.1),
        rade.GradNorm(p=0.2),
        "GradNorm(p=0.2, rho=0.5, data_gradient='training', penalty=0.1, lr=0.001, max_p=0.999999)",
    ),
    "Constant": (
        rade.Constant(0.2, 0.1),
        rade.Constant(0.2),
        "Constant(p=0.2, rho=0.1, data_gradient='training')",
    ),
    "Views": (rade.Views(shared=True), rade.Views(), "Views(shared=True, sampling='bernoulli', directed=False)"),
    "Correction": (
        rade.Correction(cap=2.0),
        rade.Correction(),
        "Correction(moments='exact', complement='exact', samples=256, cap=2.0)",
    ),
    "Readout": (
        rade.Readout(pool="sum"),
        rade.Readout(),
        "Readout(task='auto', pool='sum', pooling_rule='exact', head=None, loss=None)",
    ),
    "Expected": (rade.Expected(), rade.Expected(rates=rade.Rates(0.1)), "Expected(rates=None)"),
    "Ensemble": (rade.Ensemble(4), rade.Ensemble(), "Ensemble(rates=None, size=4)"),
    "Rates": (rade.Rates(0.5, 0.001), rade.Rates(0.5), "Rates(p=0.5, q=0.001)"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_compare_print_and_travel(name):
    value, other, shown = VALUES[name]
    assert repr(value) == shown
    assert value == copy.deepcopy(value) == pickle.loads(pickle.dumps(value))
    assert hash(value) == hash(copy.copy(value))
    assert value != other
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, 0.1)


def test_a_printed_value_can_be_read_back():
    for value, _, shown in VALUES.values():
        assert eval(shown, vars(rade) | {name: getattr(rade, name) for name in rade.__all__}) == value


def test_a_model_keeps_the_values_it_was_given():
    kinds = {"rule": "GradNorm", "views": "Views", "inference": "Ensemble"}
    given = {name: VALUES[kind][0] for name, kind in kinds.items()}
    model = rade.RADE(Net(LAYERS["GCNConv"]), "ofs", correction=rade.Correction(cap=2.0), **given)
    assert {name: getattr(model, name) for name in given} == given
    assert (model.variant, model.correction) == (rade.Variant.OFS, rade.Correction(cap=2.0))


REFUSED: dict[str, tuple[Any, str]] = {
    "p": (0.3, "p is part of the rule: RADE(model, rule=rade.Constant(p=0.3))"),
    "rate_lr": (1e-2, "rate_lr is part of the rule: RADE(model, rule=rade.GradNorm(lr=0.01))"),
    "max_correction": (
        2.0,
        "max_correction is part of the correction: RADE(model, correction=rade.Correction(cap=2.0))",
    ),
    "share_view": (False, "share_view is part of the views: RADE(model, views=rade.Views(shared=False))"),
    "sampling": ("fixed", "sampling is part of the views: RADE(model, views=rade.Views(sampling='fixed'))"),
    "pool": ("sum", "pool is part of the readout: RADE(model, readout=rade.Readout(pool='sum'))"),
    "head": (torch.nn.Linear(1, 1), "head is part of the readout: RADE(model, readout=rade.Readout(head=...))"),
    "adaptive": (False, "adaptive is a choice of rule: RADE(model, rule=rade.GradNorm()) or rule=rade.Constant()"),
    "pp": (0.3, "RADE got an unexpected argument 'pp'; its arguments: variant, rule, correction, views, readout"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_flat_names_are_answered_with_the_value_they_are_part_of(name):
    value, sentence = REFUSED[name]
    with pytest.raises(TypeError) as refused:
        rade.RADE(Net(LAYERS["GCNConv"]), **{name: value})
    assert str(refused.value).startswith(sentence)


def test_every_flat_name_has_a_field():
    """In the value that the refusal names, and in the one that the method of the trainer holds."""
    for name, (argument, field) in FLAT.items():
        kinds = [kind for of, words in KINDS.values() for kind in words.values() if of == argument]
        homes = [getattr(rade, HOMES[argument]), *kinds]
        assert any(field in {f.name for f in fields(home)} for home in homes), name
        assert argument in {f.name for f in fields(RandomAddDrop)}, name
    assert {argument for argument, _ in KINDS.values()} <= set(HOMES)


OTHER: dict[str, Any] = {  # for every flat name another value than its default
    "p": 0.2, "rho": 0.1, "penalty": 0.3, "rate_lr": 0.01, "max_p": 0.9, "data_gradient": "clean", "moments": "delta",
    "complement": "sampled", "samples": 7, "max_correction": 2.0, "share_view": True, "sampling": "fixed",
    "task": "binary", "pool": "mean", "pooling_rule": "paper", "head": "lin", "views": 3,
    "noise_p": 0.1, "noise_q": 0.01,
}  # fmt: skip


OF_NOISE: dict[str, Any] = {"nu": 1.0, "horizon": 20.0, "tied": False}


def defaults() -> dict[str, Any]:
    return {
        "rule": rade.GradNorm(),
        "views": rade.Views(),
        "correction": rade.Correction(),
        "readout": rade.Readout(),
        "inference": rade.Ensemble(),
        "noise": rade.Rates(0.0, 0.0),
    }


def test_flat_settings_make_the_trip_to_values_and_back():
    before, after = flat(defaults()), flat(from_flat(defaults(), OTHER))
    noise = from_flat(defaults(), {"rule": "noise-ratio", **OF_NOISE})["rule"]
    assert set(OTHER) | set(OF_NOISE) == set(FLAT)
    assert noise == rade.NoiseRatio(nu=1.0, horizon=20.0, tied=False)
    assert after == before | OTHER
    assert all(after[name] != before[name] for name in OTHER)
    assert from_flat(defaults(), flat(defaults())) == defaults()


def test_kinds_come_before_fields():
    made = from_flat(defaults(), {"adaptive": False, "p": 0.2, "inference": "expected"})
    assert (made["rule"], made["inference"]) == (rade.Constant(p=0.2, rho=0.5), rade.Expected())
    assert from_flat(made, {"adaptive": True})["rule"] == rade.GradNorm(p=0.2)
    with pytest.raises(ValueError, match="penalty means nothing with Constant"):
        from_flat(defaults(), {"adaptive": False, "penalty": 0.2})
    with pytest.raises(ValueError, match="views means nothing with Expected"):
        from_flat(defaults(), {"inference": "expected", "views": 3})
    with pytest.raises(ValueError, match="inference must be one of 'expected', 'ensemble', got 'median'"):
        from_flat(defaults(), {"inference": "median"})
