"""Models that take a transposed sparse adjacency, as `torch_geometric.transforms.ToSparseTensor` gives it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.testing import assert_close
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csr_tensor

import rade

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 0, 3], [1, 0, 2, 1, 3, 2, 4, 3, 3, 0]])
X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch calls its layout new
    ADJ_T = to_torch_csr_tensor(EDGES.flip(0), size=(5, 5))
    COO = to_torch_coo_tensor(EDGES.flip(0), size=(5, 5))
    WEIGHTED = to_torch_csr_tensor(EDGES.flip(0), torch.linspace(0.5, 1.5, 10), size=(5, 5))


class Initial(nn.Module):
    """GCN2, which takes the first features, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCN2Conv(4, 0.5, normalize=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.conv(x, x, edges)


def gcn() -> nn.Module:
    return pyg.GCNConv(4, 3)


def graph_conv() -> nn.Module:
    return pyg.GraphConv(4, 3)


def sage() -> nn.Module:
    return pyg.SAGEConv(4, 3)


CASES = [(gcn, ADJ_T), (gcn, WEIGHTED), (graph_conv, ADJ_T), (graph_conv, WEIGHTED), (Initial, ADJ_T),
         (Initial, WEIGHTED), (sage, ADJ_T), (gcn, COO)]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Converting sparse tensor")
@pytest.mark.parametrize(("build", "matrix"), CASES)
def test_views_are_drawn_and_evaluation_is_the_plain_model_s(build: Callable[[], nn.Module], matrix: Tensor) -> None:
    """The mean over training calls is the plain output; 1,500 views and five deviations: one false alarm in 10^5."""
    torch.manual_seed(0)
    plain = build()
    model = rade.RADE(copy.deepcopy(plain), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        drawn = torch.stack([model(X, matrix) for _ in range(1500)])
        clean = plain(X, matrix)
        assert drawn.std(0).max() > 1e-3
        assert ((drawn.mean(0) - clean).abs() <= 5 * drawn.std(0) / len(drawn) ** 0.5 + 1e-5).all()
        assert_close(model.eval()(X, matrix), clean)


@pytest.mark.parametrize("conv", [pyg.GATConv(4, 3, edge_dim=1), pyg.SAGEConv(4, 3)], ids=["GAT", "SAGE"])
def test_entries_that_are_no_weights_are_left_to_pyg(conv: nn.Module) -> None:
    """Each of these layers reads them in a way of its own: no views, and a word about it."""
    model = rade.RADE(conv)
    with pytest.warns(UserWarning, match="aggregated as without RADE"):
        model(X, WEIGHTED)
