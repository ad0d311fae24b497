"""What `rade.check` tells before any training: what works, what should be known, what does not."""

from functools import partial
from typing import Any

import pytest
import torch
from torch_geometric.nn import EdgeConv, GCNConv, GPSConv, SAGEConv

import rade
from zoo import EDGES, LAYERS, Ends, Net, X, normal, random_edges


def gcn() -> Net:
    return Net(LAYERS["GCNConv"])


LARGE = (normal(200, 8), random_edges(200, 400))
FEW = "only 4.5% of the rows are labelled and edges are added"
LENGTH = partial(SAGEConv, normalize=True)
# A model, its arguments, those of `check`, the mark and the sentence, or None where it is not to be found.
TOLD: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str | None, str]] = {
    "few labels": (gcn, LARGE, {"labelled": torch.arange(9)}, "??", FEW),
    "few, by a mask": (gcn, LARGE, {"labelled": torch.arange(200) < 9}, "??", FEW),
    "labels": (gcn, LARGE, {"labelled": torch.arange(40)}, "ok", "40 of 200 rows"),
    "Labelled": (gcn, LARGE, {"labelled": rade.Labelled(torch.arange(40))}, "ok", "40 of 200 rows"),
    "a list": (gcn, LARGE, {"labelled": [1, 2]}, "!!", "or a rade.Labelled, got list"),
    "no labels": (gcn, LARGE, {}, None, "labelled"),
    "probabilities": (lambda: Ends(lambda logits: logits.softmax(1)), LARGE, {}, "ok", "outputs are probabilities"),
    "logits": (gcn, LARGE, {}, None, "are probabilities"),
    "length": (lambda: Net(LENGTH), (X, EDGES), {}, "??", "only its sum keeps the expectation (normalize=True is not"),
    "linear": (lambda: Net(SAGEConv), (X, EDGES), {}, None, "keeps the expectation"),
    "repeated": (gcn, (X, torch.cat([EDGES, EDGES], 1)), {}, "ok", "GCNConv: by pairs of views (its edge_index has"),
    "asked": (gcn, LARGE, {"options": {"correction": rade.Correction(by="pairs")}}, "ok", 'as Correction(by="pairs")'),
    "max": (lambda: SAGEConv(8, 3, aggr="max"), (X, EDGES), {}, "ok", "by pairs of views (MaxAggregation is no"),
    "mean": (lambda: SAGEConv(8, 3), (X, EDGES), {}, "ok", "by moments"),
    "RADE-OFS": (
        lambda: EdgeConv(torch.nn.Linear(16, 3)), (X, EDGES), {"options": {"variant": "ofs"}}, "!!", "use RADE-OF, "
    ),
    "adapts": (gcn, (X, EDGES), {"options": {"rule": rade.GradNorm()}}, "ok", "GradNorm adapts them; a step costs"),
    "fused attention": (
        lambda: GPSConv(8, GCNConv(8, 8), heads=2), (X, EDGES), {}, "ok", "with rade.GradNorm(): GradNorm adapts them"
    ),
    "differentiated once": (
        lambda: Ends(lambda z: torch.cdist(z, z[:3], p=1.0)), (X, EDGES), {}, "ok", "is not implemented"
    ),
    "frozen": (lambda: gcn().requires_grad_(False), (X, EDGES), {}, "ok", "no parameter of the model learns"),
    "no moments": (lambda: EdgeConv(torch.nn.Linear(16, 3)), (X, EDGES), {}, "ok", "they stay as they are; with"),
}  # fmt: skip


# Rates cannot adapt.
FIXED = ("a list", "probabilities", "repeated", "asked", "max", "RADE-OFS", "differentiated once", "frozen",
         "no moments")  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_and_that_the_model_and_the_seed_are_left_alone(name):
    build, args, options, mark, sentence = TOLD[name]
    net, state = build(), torch.get_rng_state()
    classes = [type(module) for module in net.modules()]
    found = rade.check(net, *args, **options)
    marks = [line.mark for line in found.lines if sentence in line.found]
    assert marks[:1] == ([] if mark is None else [mark])
    assert found.works == (mark != "!!")
    assert f"{mark}  " in str(found) or mark is None
    assert found.adapts == (name not in FIXED), str(found)
    assert torch.equal(torch.get_rng_state(), state)
    assert [type(module) for module in net.modules()] == classes
    assert all(parameter.grad is None for parameter in net.parameters())
