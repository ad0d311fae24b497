"""The spectral gap of an inference operator: how fast a walk along its weights forgets where it began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from rade.diagnose.network import Network, components

DENSE = 200  # up to so many nodes all eigenvalues are computed: Lanczos needs more nodes than vectors
TOLERANCE = 1e-6
ROUNDS = 5000


def spectral_gap(network: Network) -> float:
    """1 − λ₂ of D^−½ W D^−½ with D = diag(W 1), whose first eigenvalue is 1; 0 where the network falls apart.

    Given for one graph. Only products with W are used: RADE-OFS's weights are sparse plus low rank and stay so.
    """
    nodes = network.graph.num_nodes
    if nodes < 2 or bool((network.degree <= 0).any()):
        return 0.0
    if network.adjacency.local and int(components(network.graph).max()) > 0:
        return 0.0
    root = network.degree.sqrt()
    first: Tensor = (root / root.norm())[:, None]

    def deflated(x: Tensor) -> Tensor:
        """The first eigenvalue moved from 1 to −1, out of the way of the second."""
        walked: Tensor = network.apply(x / root[:, None]) / root[:, None]
        return walked - 2.0 * first * (first.t() @ x)

    if nodes <= DENSE:
        whole = deflated(torch.eye(nodes, dtype=root.dtype))
        return 1.0 - float(torch.linalg.eigvalsh((whole + whole.t()) / 2)[-1])
    return 1.0 - _largest(deflated, nodes)


def _largest(apply: Callable[[Tensor], Tensor], nodes: int) -> float:
    def product(column: Any) -> Any:
        return apply(torch.from_numpy(column.reshape(-1, 1).copy())).numpy()

    operator = LinearOperator((nodes, nodes), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(nodes)
    try:
        return float(eigsh(operator, 1, which="LA", v0=start, tol=TOLERANCE, maxiter=ROUNDS)[0][0])
    except ArpackNoConvergence as stopped:
        return float(max(stopped.eigenvalues, default=np.nan))
