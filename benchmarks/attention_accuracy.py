"""How far attention's moments are off at each tolerance, for scores of any scale: a table of docs/theory.md.

    python -m benchmarks.attention_accuracy                # about six minutes of one core
    python -m benchmarks.attention_accuracy --nodes 300 --std 0,1

Against a trapezoid rule over every pair and scale, in double precision. A random graph of mean degree 4, one head,
normal scores s and t of each standard deviation; the worst of p = 0, .5, .8, ρ = .5, 1.5, with and without self-loops.
mean and square: largest relative error of E[α'] and E[α'²] of an edge or loop. bias: largest entry of E[corrected
aggregation] − clean aggregation for messages of ±1, RADE-OF. "listed" goes through all pairs, "grids" does not.
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.correction import factors
from rade.distribution import Correction, Distribution, Rates
from rade.graph.graph import Graph
from rade.moments import Attention
from rade.moments.attention import attention as library

SLOPE, STEP = 0.2, 0.35  # of LeakyReLU, and of the reference in log t: its own error is below 1e-11


def random_graph(nodes: int) -> Graph:
    generator = torch.Generator().manual_seed(0)
    low, high = torch.triu_indices(nodes, nodes, 1)
    chosen = torch.randperm(low.numel(), generator=generator)[: 2 * nodes]
    pairs = torch.stack([low[chosen], high[chosen]])
    return Graph.from_edge_index(torch.cat([pairs, pairs.flip(0)], 1), nodes)


def reference(beta: Tensor, rate: Tensor, loops: bool) -> tuple[Tensor, Tensor]:
    """E[α'] and E[α'²] of all pairs [n, n], target first; on the diagonal those of loops, which are always there."""
    rate = torch.where(torch.eye(len(beta), dtype=torch.bool), float(loops), rate)
    begin, end = -float(beta.max()) - math.log(len(beta)) - 25, -float(beta.min()) + 4.0
    mean, square = torch.zeros_like(beta), torch.zeros_like(beta)
    for tau in torch.arange(begin, end, STEP, dtype=torch.double):
        y = (tau + beta).clamp(max=6.5).exp()
        each = torch.where(rate == 1, -y, torch.log1p(rate * torch.expm1(-y)))
        given = STEP * rate * y * torch.exp(each.sum(1, keepdim=True) - each - y)
        mean, square = mean + given, square + given * y
    return mean, square


def errors(graph: Graph, deviation: float, p: float, rho: float, loops: bool, tolerances: list[float]) -> list[Tensor]:
    """(mean, square, bias) for each tolerance."""
    n, generator = graph.num_nodes, torch.Generator().manual_seed(1)
    s, t, x = (torch.randn(n, generator=generator, dtype=torch.double) for _ in range(3))
    s, t, x, q = deviation * s, deviation * t, x.sign(), rho * graph.density
    beta, at = leaky_relu(s + t[:, None], SLOPE), (graph.pattern.target, graph.pattern.source)
    edge = torch.zeros(n, n, dtype=torch.bool).index_put(at, torch.tensor(True))
    mean, square = reference(beta, torch.where(edge, 1.0 - p, q).double(), loops)
    other = mean.masked_fill(edge | torch.eye(n, dtype=torch.bool), 0.0)
    found = []
    for tolerance in tolerances:
        attention = Attention(graph, s[:, None], t[:, None], SLOPE, loops)
        distribution = Distribution(graph, Rates(p, q), correction=Correction(tolerance=tolerance))
        moments, spread = attention.mean(distribution), attention.variance(distribution)
        factor, clean = factors(attention, distribution), attention.clean()
        seen = torch.cat([moments.edges[:, 0], moments.loop[:, 0]])
        true = torch.cat([mean[at], mean.diagonal()])
        heard = true > 1e-30
        second = (spread.edges + moments.edges.square())[:, 0] / square[at]
        message = x[:, None, None]
        centre = moments.nonedges.apply(message)[:, 0, 0] / torch.where(factor.total != 0, factor.total, 1.0)[:, 0]
        kept = (factor.edges[:, 0] * mean[at] - clean.edges[:, 0]) * x[at[1]]
        bias = graph.pattern.row_sum(kept) + (factor.loop[:, 0] * mean.diagonal() - clean.loop[:, 0]) * x
        bias = bias + other @ x - other.sum(1) * centre
        parts = ((seen / true - 1)[heard], (second - 1)[square[at] > 1e-30], bias)
        found.append(torch.stack([part.abs().max() for part in parts]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--std", default="0,0.1,1,2,5,20")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    graph, tolerances = random_graph(asked.nodes), [1e-3, 1e-5]
    columns = [f"{what}, {tolerance:g}" for tolerance in tolerances for what in ("mean", "square", "bias")]
    print("| scores | pairs |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 2) + "|")
    for deviation, listed in product(map(float, asked.std.split(",")), (True, False)):
        cases = product((0.0, 0.5, 0.8), (0.5, 1.5), (False, True))
        costs = (1, not listed, listed)  # of pairs by themselves, which are not asked about, of lists and of grids
        with patch.object(library, "costs", lambda *_, costs=costs: costs):
            worst = torch.stack([torch.cat(errors(graph, deviation, *case, tolerances)) for case in cases]).amax(0)
        figures = " | ".join(f"{float(value):.0e}".replace("e-0", "e-") for value in worst)
        print(f"| std {deviation:g} | {'listed' if listed else 'grids'} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
