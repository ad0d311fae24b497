"""What RADE-OFS's inference does to the flow of information, beside the clean model's, which is also RADE-OF's."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import LargestConnectedComponents
from torch_geometric.utils import to_scipy_sparse_matrix

from rade.correction import Adjacency
from rade.data import Dataset
from rade.distribution import Distribution, Rates, Variant
from rade.errors import RunError
from rade.graph.graph import Graph
from rade.moments import Normalised
from rade.nn.linear import dense
from rade.train.backbones import Backbone
from rade.train.model import Trained
from rade.wrapper.conversion import attach
from rade.wrapper.module import RADE

GRAPHS, ANCHORS = 128, 16  # at most so many graphs of a data set, and nodes that sensitivities are taken at
PROBES = 8  # random directions per anchor; exact where the representation is no wider
OTHERWISE = 0.5  # p and ρ of a model that was trained without RADE
DENSE = 200  # up to so many nodes all eigenvalues are computed: Lanczos needs more nodes than vectors

Diagnosis = dict[str, Any]
Operator = Callable[[Graph], Adjacency]


def diagnose(trained: Trained, dataset: Dataset, seed: int = 0) -> Diagnosis:
    """A trained model on a data set: spectral gaps, and sensitivities by distance.

    RADE-OFS at the rates that the model ended with; at p = ρ = 0.5 if it was trained without RADE. ``operators`` holds
    what was measured of the clean operator and of RADE-OFS's, ``notes`` what was sampled. All values are plain.
    """
    net, settings = _backbone(trained), trained.settings
    order = torch.randperm(len(dataset.graphs), generator=torch.Generator().manual_seed(seed))[:GRAPHS].sort().values
    whole: Any = dataset.graphs[0] if dataset.level == "node" else cast(Any, dataset.graphs).batch(order)
    graph = Graph.from_edge_index(whole.edge_index, whole.num_nodes, whole.batch)
    x = whole.x.double() if whole.x.is_floating_point() else whole.x
    model = trained.learner.net
    adapted = isinstance(model, RADE) and model.rade.variant.corrects
    usual = Rates(OTHERWISE, min(OTHERWISE * graph.density, 1.0))
    rates = cast(RADE, model).rate_state.rates_for(graph) if adapted else usual
    operators: dict[str, Operator] = {
        "clean": Adjacency,
        "rade-ofs": lambda other: Adjacency(other, Distribution(other, rates, Variant.OFS)),
    }
    pieces = [_largest_component(dataset.graphs[place]) for place in order.tolist()]
    sampled = {"graphs": (len(order), len(dataset.graphs)), "nodes": (ANCHORS, graph.num_nodes)}
    return {
        "dataset": dataset.name,
        "model": f"{settings.backbone}, {settings.method}, {settings.layers} layers, at most {settings.epochs} epochs",
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "graphs": graph.num_graphs,
        "layers": len(net.convolutions),
        "p": rates.numbers[0],
        "q": rates.numbers[1],
        "operators": {
            name: {
                "gap": sum(spectral_gap(operator(piece)) for piece in pieces) / len(pieces),
                **_sensitivity(net, x, operator(graph), seed),
            }
            for name, operator in operators.items()
        },
        "notes": [f"{some} of {all_:,} {what}, at random" for what, (some, all_) in sampled.items() if some < all_],
    }


def _backbone(trained: Trained) -> Backbone:
    """A copy that takes what it is given, in evaluation mode and double precision."""
    model = trained.learner.net
    base = model.wrapped if isinstance(model, RADE) else model
    if not isinstance(base, Backbone):
        raise RunError(f"{trained.settings.method} changes the backbone itself; diagnose a run of another method")
    net = deepcopy(base).double().eval()
    attach(net, None)
    return net


def _largest_component(data: Data) -> Graph:
    part = LargestConnectedComponents()(Data(edge_index=data.edge_index, num_nodes=data.num_nodes))
    return Graph.from_edge_index(part.edge_index, part.num_nodes)


def spectral_gap(adjacency: Adjacency) -> float:
    """1 − λ₂ of D^−½ W D^−½ on a connected graph, W being what the operator sums, D = diag(W 1); 1 for a single node.

    How fast a walk along the weights forgets where it began. Products with W alone: RADE-OFS's is sparse plus low rank.
    """
    nodes = adjacency.graph.num_nodes
    if nodes == 1:
        return 1.0
    apply = adjacency.sums(Normalised.sum(adjacency.graph, torch.double)).apply
    root = apply(torch.ones(nodes, 1, dtype=torch.double)).sqrt()
    first = root / root.norm()

    def deflated(x: Tensor) -> Tensor:
        """The first eigenvalue moved from 1 to −1, out of the way of the second."""
        moved: Tensor = apply(x / root) / root - 2.0 * first * (first.t() @ x)
        return moved

    if nodes <= DENSE:
        return 1.0 - float(torch.linalg.eigvalsh(deflated(torch.eye(nodes, dtype=torch.double)))[-1])

    def product(column: Any) -> Any:
        return deflated(torch.from_numpy(column.reshape(-1, 1).copy())).numpy()

    operator = LinearOperator((nodes, nodes), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(nodes)
    return 1.0 - float(eigsh(operator, 1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])


def _sensitivity(net: Backbone, x: Tensor, adjacency: Adjacency, seed: int) -> dict[str, Any]:
    """``steps``: pairs and mean ‖∂h_i/∂h⁰_j‖ by distance, −1 without a path; ``beyond``: the share out of reach."""
    graph, generator = adjacency.graph, torch.Generator().manual_seed(seed)
    anchors = torch.randperm(graph.num_nodes, generator=generator)[:ANCHORS].sort().values
    links = to_scipy_sparse_matrix(graph.edge_index.flip(0), num_nodes=graph.num_nodes).tocsr()
    reached = torch.from_numpy(shortest_path(links, unweighted=True, indices=anchors.numpy()))
    distance = torch.where(reached.isinf(), -1.0, reached).long()
    inside = graph.batch[anchors][:, None] == graph.batch
    norms = jacobian_norms(net, x, adjacency, anchors, torch.Generator().manual_seed(seed))
    steps = []
    for far in torch.unique(distance[inside]).tolist():
        at = inside & (distance == far)
        steps.append({"distance": far, "pairs": int(at.sum()), "sensitivity": float(norms[at].mean())})
    away = inside & ((distance > len(net.convolutions)) | (distance < 0))
    total = norms[inside].sum().clamp(min=torch.finfo(norms.dtype).tiny)
    return {"steps": steps, "beyond": float(norms[away].sum() / total)}


def jacobian_norms(
    net: Backbone, x: Tensor, adjacency: Adjacency, anchors: Tensor, generator: torch.Generator
) -> Tensor:
    """‖∂h_i/∂h⁰_j‖_F for anchors i and all nodes j, [a, n]: h before pooling, h⁰ what enters the first convolution.

    By PROBES orthonormal directions v: ‖vᵀJ‖² adds up to ‖J‖² over a basis, and over some of it in the mean, scaled.
    (Over-squashing: Topping et al. 2022.)
    """
    hidden = inputs = dense(net.before(net.encoder(x))).detach().requires_grad_()
    for convolution in net.convolutions:
        hidden = net.after(net.activation(convolution(hidden, adjacency)))
    width = hidden.size(1)
    probes = min(PROBES, width)
    found = []
    for anchor in anchors.tolist():
        square = torch.zeros(len(inputs), dtype=inputs.dtype)
        draws = torch.randn(width, probes, dtype=torch.double, generator=generator)
        for direction in torch.linalg.qr(draws)[0].t():
            (gradient,) = torch.autograd.grad(hidden[anchor] @ direction, inputs, retain_graph=True)
            square += gradient.square().sum(1)
        found.append((square * (width / probes)).sqrt())
    return torch.stack(found)
