"""Layers that take edges of several kinds: positive and negative ones, or a dictionary by relation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.testing import assert_close

import rade

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
FORTH = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
BACK = torch.tensor([[1, 3, 5, 4], [0, 2, 1, 0]])
KINDS = [("user", "rates", "item"), ("item", "rated", "user")]
BY_KIND = ({"user": X, "item": X[:5]}, {KINDS[0]: torch.tensor([[0, 1, 2, 5], [1, 2, 4, 0]]), KINDS[1]: BACK % 5})


def signed() -> nn.Module:
    return pyg.SignedConv(4, 3, first_aggr=True)


def han() -> nn.Module:
    return pyg.HANConv(4, 4, (["user", "item"], KINDS), heads=2)


def hgt() -> nn.Module:
    return pyg.HGTConv(4, 4, (["user", "item"], KINDS), heads=2)


def first(output: Any) -> Tensor:
    return output["item"] if isinstance(output, dict) else output


@pytest.mark.parametrize(
    ("build", "inputs"), [(signed, (X, FORTH, BACK)), (han, BY_KIND), (hgt, BY_KIND)], ids=["signed", "HAN", "HGT"]
)
def test_sums_are_on_views_and_evaluation_is_the_plain_layer_s(build: Callable[[], nn.Module], inputs: Any) -> None:
    """The sums keep their expectation; of these layers only the signed one is linear in them."""
    torch.manual_seed(0)
    plain = build()
    model = rade.RADE(copy.deepcopy(plain), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        drawn = torch.stack([first(model(*inputs)) for _ in range(1000)])
        clean = first(plain(*inputs))
        assert drawn.std(0).max() > 1e-2
        if build is signed:  # five deviations of a mean: one false alarm in 10^5
            assert ((drawn.mean(0) - clean).abs() <= 5 * drawn.std(0) / 1000**0.5 + 1e-5).all()
        assert_close(first(model.eval()(*inputs)), clean)


def test_attention_with_attributes_takes_a_graph_without_edges() -> None:
    """The first batches of a temporal loader have none."""
    none = torch.zeros(2, 0, dtype=torch.long)
    plain = pyg.TransformerConv(4, 3, edge_dim=2)
    model = rade.RADE(copy.deepcopy(plain))
    assert_close(model(X, none, torch.zeros(0, 2)), plain(X, none, torch.zeros(0, 2)))
