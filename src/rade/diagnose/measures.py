"""Measures of an inference operator, by products with it alone: RADE-OFS's is sparse plus low rank and stays so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from rade.correction import Adjacency
from rade.distribution import NO_NOISE, Distribution, Rates, Trust
from rade.graph.graph import Graph
from rade.moments import Coefficients, Normalised
from rade.nn.linear import dense
from rade.rates.variance import LogitMessages, variance
from rade.train.backbones import Backbone

DENSE = 200  # up to so many nodes all eigenvalues are computed: Lanczos needs more nodes than vectors
GAP_TOLERANCE, RESISTANCE_TOLERANCE, ITERATIONS = 1e-6, 1e-8, 5000
PROBES = 8  # random directions per anchor; exact where the representation is no wider
EVEN = Rates(0.5, 0.5)  # both kinds of randomness at work: p/(1−p) = 1, q(1−q) = ¼


@dataclass(frozen=True, eq=False)
class Network:
    """An operator as conductors: symmetric weights W ≥ 0; loops count in the degree and carry no current."""

    adjacency: Adjacency
    apply: Callable[[Tensor], Tensor]  # W x, [n, k] → [n, k]
    degree: Tensor  # W 1, [n]

    @staticmethod
    def of(adjacency: Adjacency, coefficients: Coefficients) -> Network:
        """The network of an aggregator over an adjacency."""
        apply = adjacency.sums(coefficients).apply
        ones = torch.ones(adjacency.graph.num_nodes, 1, dtype=coefficients.dtype)
        return Network(adjacency, apply, apply(ones).squeeze(1))

    @property
    def volume(self) -> Tensor:
        """1ᵀ W 1 of each node's graph, [n] (broadcast for one graph)."""
        graph = self.adjacency.graph
        return graph.per_node(graph.pool(self.degree))


def is_local(adjacency: Adjacency) -> bool:
    """Whether a node receives messages from its neighbors alone: RADE-OFS's operator has all nodes of a graph."""
    distribution = adjacency.distribution
    return distribution is None or not (distribution.variant.keeps_additions or distribution.noisy)


def spectral_gap(network: Network) -> float:
    """1 − λ₂ of D^−½ W D^−½ with D = diag(W 1), whose first eigenvalue is 1; 0 where the network falls apart.

    Given for one graph: how fast a walk along the weights forgets where it began.
    """
    graph, nodes = network.adjacency.graph, network.adjacency.graph.num_nodes
    broken = is_local(network.adjacency) and int(components(graph).max()) > 0
    if nodes < 2 or broken or bool((network.degree <= 0).any()):
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

    def product(column: Any) -> Any:
        return deflated(torch.from_numpy(column.reshape(-1, 1).copy())).numpy()

    operator = LinearOperator((nodes, nodes), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(nodes)
    try:
        found = eigsh(operator, 1, which="LA", v0=start, tol=GAP_TOLERANCE, maxiter=ITERATIONS)[0]
    except ArpackNoConvergence as stopped:
        found = stopped.eigenvalues
    return 1.0 - float(max(found, default=np.nan))


def effective_resistance(network: Network, source: Tensor, target: Tensor) -> Tensor:
    """R_ij = (e_i − e_j)ᵀ L⁺ (e_i − e_j), L = diag(W 1) − W, for pairs [k]; ∞ where no current flows.

    The commute time of a walk along the weights is R_ij times the volume of the graph.
    """
    columns, degree = torch.arange(source.numel()), network.degree
    right = torch.zeros(degree.numel(), source.numel(), dtype=degree.dtype)
    right[source, columns] += 1.0
    right[target, columns] -= 1.0
    potential, solved = conjugate_gradients(lambda x: degree[:, None] * x - network.apply(x), right, degree)
    return torch.where(solved, potential[source, columns] - potential[target, columns], torch.inf)


def conjugate_gradients(apply: Callable[[Tensor], Tensor], right: Tensor, diagonal: Tensor) -> tuple[Tensor, Tensor]:
    """x with A x = right for each column of [n, k], and which columns were solved; A positive, perhaps singular.

    Preconditioned by the diagonal. SciPy's takes one column at a time; here all share their products with A.
    A column without a solution, whose residual stays in the null space, is not solved.
    """
    scale = torch.where(diagonal > 0, diagonal, 1.0)[:, None]
    x, residual = torch.zeros_like(right), right.clone()
    goal = RESISTANCE_TOLERANCE * right.norm(dim=0)
    step = residual / scale
    energy = (residual * step).sum(0)
    for _ in range(ITERATIONS):
        unsolved = residual.norm(dim=0) > goal  # others rest: in a singular system they would drift on rounding errors
        if not bool(unsolved.any()):
            break
        product = apply(step)
        curvature = (step * product).sum(0)
        moving = unsolved & (curvature > 0)
        length = torch.where(moving, energy / torch.where(moving, curvature, 1.0), 0.0)
        x, residual = x + length * step, residual - length * product
        scaled = residual / scale
        following = (residual * scaled).sum(0)
        step = scaled + torch.where(moving, following / torch.where(moving, energy, 1.0), 0.0) * step
        energy = following
    return x, residual.norm(dim=0) <= goal


@dataclass(frozen=True, eq=False)
class Sample:
    """Anchors [a], the distance of every node from each (−1: not connected, or of another graph), and pairs."""

    anchors: Tensor  # [a]
    distance: Tensor  # [a, n] int, −1 where there is no path
    inside: Tensor  # [a, n] bool: nodes of the anchor's graph
    source: Tensor  # [k] anchor of each pair
    target: Tensor  # [k] another node of its graph, connected to it

    @staticmethod
    def of(graph: Graph, anchors: int, partners: int, generator: torch.Generator) -> Sample:
        """``anchors`` different nodes, all if there are fewer, and up to ``partners`` connected nodes of each."""
        chosen = torch.randperm(graph.num_nodes, generator=generator)[:anchors].sort().values
        reached = torch.from_numpy(shortest_path(_matrix(graph), unweighted=True, indices=chosen.numpy()))
        distance = torch.where(reached.isinf(), -1.0, reached).long()
        source, target = [torch.zeros(0, dtype=torch.long)], [torch.zeros(0, dtype=torch.long)]
        for node, steps in zip(chosen, distance):
            others = (steps > 0).nonzero().squeeze(1)
            picked = others[torch.randperm(others.numel(), generator=generator)[:partners]]
            source.append(node.expand(picked.numel()))
            target.append(picked)
        inside = graph.batch[chosen][:, None] == graph.batch
        return Sample(chosen, distance, inside, torch.cat(source), torch.cat(target))


def jacobian_norms(
    net: Backbone, x: Tensor, adjacency: Adjacency, anchors: Tensor, generator: torch.Generator
) -> Tensor:
    """‖∂h_i/∂h⁰_j‖_F for anchors i and all nodes j, [a, n]: h before pooling, h⁰ what enters the first convolution.

    By PROBES orthonormal directions v: ‖vᵀJ‖² adds up to ‖J‖² over a basis, and over some of it in the mean, scaled.
    (Over-squashing: Topping et al. 2022.)
    """
    with torch.enable_grad():
        inputs, _, hidden = passed(net, x, adjacency)
    width = hidden.size(1)
    probes = min(PROBES, width)
    found = []
    for anchor in anchors.tolist():
        square = torch.zeros(len(inputs), dtype=inputs.dtype)
        draws = torch.randn(width, probes, dtype=torch.double, generator=generator)
        for direction in torch.linalg.qr(draws)[0].t().to(square.dtype):
            (gradient,) = torch.autograd.grad(hidden[anchor] @ direction, inputs, retain_graph=True)
            square += gradient.square().sum(1)
        found.append((square * (width / probes)).sqrt())
    return torch.stack(found)


def passed(net: Backbone, x: Tensor, adjacency: Adjacency) -> tuple[Tensor, Tensor, Tensor]:
    """What enters the first convolution, where derivatives begin, what enters the last, and what leaves it."""
    seen: dict[str, Tensor] = {}

    def entered(module: Any, args: Any, output: Tensor) -> Tensor:
        seen["inputs"] = dense(output).detach().requires_grad_()
        return seen["inputs"]

    hooks = [
        net.before.register_forward_hook(entered),
        net.convolutions[-1].register_forward_pre_hook(lambda module, args: seen.update(last=args[0].detach())),
        net.pool.register_forward_pre_hook(lambda module, args: seen.update(hidden=args[0])),
    ]
    try:
        net(x, adjacency, batch=adjacency.graph.batch)
    finally:
        for hook in hooks:
            hook.remove()
    return seen["inputs"], seen["last"], seen["hidden"]


def ratios(messages: Tensor, distribution: Distribution) -> Tensor:
    """κ of every node that has a message from a neighbor, [k]; messages [n, C], squares added over C."""
    even = replace(distribution, rates=EVEN, noise=NO_NOISE, trust=Trust())
    found = variance(LogitMessages(Normalised.sum(even.graph, messages.dtype), messages), even)
    edges, nonedges = found.drop.sum(1), 4.0 * found.add.sum(1)
    return nonedges[edges > 0] / edges[edges > 0]


def components(graph: Graph) -> Tensor:
    """The connected component of each node, [n]."""
    return torch.from_numpy(connected_components(_matrix(graph), directed=False)[1]).long()


def largest_component(graph: Graph) -> tuple[Graph, Tensor]:
    """The largest connected component as a graph of its own, and its nodes, ascending."""
    component = components(graph)
    nodes = (component == torch.bincount(component).argmax()).nonzero().squeeze(1)
    place = torch.full((graph.num_nodes,), -1)
    place[nodes] = torch.arange(nodes.numel())
    edges = place[graph.edge_index]
    return Graph.from_edge_index(edges[:, (edges >= 0).all(0)], nodes.numel()), nodes


def _matrix(graph: Graph) -> csr_matrix:
    source, target = graph.edge_index.numpy()
    values = np.ones(len(source), dtype=np.int8)
    return cast(Any, csr_matrix((values, (target, source)), shape=(graph.num_nodes, graph.num_nodes)))
