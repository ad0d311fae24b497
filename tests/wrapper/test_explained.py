"""Layers that PyG's explainers have looked at: they leave a `propagate` in each of them."""

from __future__ import annotations

import copy

import torch
import torch_geometric.nn as pyg
from torch.testing import assert_close
from torch_geometric.explain import Explainer, GNNExplainer

import rade

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 0, 3], [1, 0, 2, 1, 3, 2, 4, 3, 3, 0]])
TASK = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


def explain(model: torch.nn.Module) -> None:
    options = {"explanation_type": "model", "node_mask_type": "attributes", "edge_mask_type": "object"}
    Explainer(model, GNNExplainer(epochs=2, lr=0.1), model_config=TASK, **options)(X, EDGES, index=0)


def test_an_explained_model_reverts_to_the_plain_one() -> None:
    plain = pyg.GCN(4, 8, 2, 3)
    model = rade.RADE(copy.deepcopy(plain)).eval()
    explain(model)
    assert_close(rade.revert(model)(X, EDGES), plain.eval()(X, EDGES))


def test_an_explained_model_can_be_wrapped() -> None:
    plain = pyg.GCN(4, 8, 2, 3).eval()
    expected = plain(X, EDGES)
    explain(plain)
    model = rade.RADE(plain)
    assert not torch.equal(model.train()(X, EDGES), model(X, EDGES))
    assert_close(model.eval()(X, EDGES), expected)
