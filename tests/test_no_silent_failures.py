"""States that must not leak from one call into another, and limits that must not be silent."""

from __future__ import annotations

import pytest
import torch
from rade.control.pooled import pooled_variance
from rade.view import Law, Rates
from rade.view.randomness import packed, unpack
from torch_geometric.nn import GCN, GraphSAGE

import rade
from rade.correction import propagate
from rade.moments import Sum, Weighted
from rade.moments.base import Sent
from rade.testing import GRAPHS

PATH = GRAPHS["path"]
EDGES = PATH.edge_index
X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("variant", ["of", "ofs"])
@pytest.mark.parametrize("sparse", [False, True])
def test_evaluation_in_inference_mode_leaves_training_possible(variant, sparse):
    torch.manual_seed(0)
    model = rade.RADE(GCN(4, 8, 2, 3), variant, readout=rade.Readout(task="multiclass"))
    x = X.to_sparse_csr() if sparse else X
    with torch.inference_mode():
        before = model.eval()(x, EDGES)
        model.explain(x, EDGES)
    model.train()(x, EDGES).sum().backward()
    model.adapt(x, EDGES)
    assert before.shape == (5, 3)


def test_an_aggregator_with_parameters_is_not_mistaken_for_another():
    """Sharing operators must be promised by a key, and a subclass does not inherit the promise."""

    class Scaled(Sum):
        def __init__(self, graph, dtype, by):
            super().__init__(graph, dtype)
            self.by = by

        def clean(self):
            weights = super().clean()
            return type(weights)(self.by * weights.edges, weights.loop, weights.added)

    one, two = (propagate(PATH, Scaled(PATH, X.dtype, by), X) for by in (1.0, 2.0))
    torch.testing.assert_close(2 * one, two)


def test_an_edge_weight_of_zero_still_learns():
    weight = torch.zeros(PATH.pattern.size, requires_grad=True)
    view = rade.sample_view(PATH, Rates(0.0, 0.0))
    propagate(view, Weighted(Sum(PATH, X.dtype), weight), X).sum().backward()
    assert bool((weight.grad != 0).all())


def test_self_loops_that_a_layer_would_use_are_not_dropped_in_silence(recwarn):
    loops = torch.cat([EDGES, torch.tensor([[0], [0]])], 1)
    with pytest.warns(UserWarning, match="1 self-loops, which the model's own layers would use"):
        rade.RADE(GraphSAGE(4, 8, 2, 3)).eval()(X, loops)
    recwarn.clear()
    rade.RADE(GCN(4, 8, 2, 3)).eval()(X, loops)  # GCNConv puts its own in their place
    assert not recwarn.list


def test_a_generator_state_of_another_device_restarts_from_its_seed():
    here, there = torch.Generator().manual_seed(1), torch.Generator().manual_seed(7)
    state = packed(there)
    unpack(here, state)
    assert torch.equal(here.get_state(), there.get_state())
    unpack(here, state[: 8 + 16])  # its seed, and a state of another length
    assert here.initial_seed() == 7


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
def test_pooled_variance_does_not_cancel_in_single_precision(offset):
    law = Law(PATH, Rates(0.3, 0.2))
    m = X.double() + offset
    single = pooled_variance(Sent(Sum(PATH, torch.float), m.float()), law, mean=False, exact=True).add
    double = pooled_variance(Sent(Sum(PATH, torch.double), m), law, mean=False, exact=True).add
    torch.testing.assert_close(single.double(), double, rtol=2e-3, atol=0)
