"""Monte Carlo means of coefficients against the exact moments and the paper's expansion: Zachary's karate club.

Samples 300,000 views for a minute if moments.json is not there, else draws what it holds.
"""

import json

import torch
from matplotlib.figure import Figure
from style import HERE, Colours, draw
from torch import Tensor
from torch_geometric.datasets import KarateClub

from rade import Correction, Graph, Rates
from rade.distribution import Distribution
from rade.moments.normalised import Normalised

P, RHO, VIEWS, BATCH = 0.5, 0.5, 300_000, 1_000
# α_ij = A_ij d_i^−a d_j^−b; GCN counts the node itself among its neighbors.
SUMS = {"GCN: 1 / √(dᵢ dⱼ)": (0.5, 0.5, 1.0), "SAGE: 1 / dᵢ": (1.0, 0.0, 0.0)}
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05)
WAYS = {"exact": ("the exact moments", "blue", "o"), "delta": ("the paper's expansion", "orange", "s")}


def sampled(adjacency: Tensor, q: float, a: float, b: float, loop: float, generator: torch.Generator) -> Tensor:
    """The sum of α' over a batch of views, [n, n]: dense, and with no line of the library."""
    n = len(adjacency)
    chance = torch.where(adjacency > 0, 1 - P, q)
    upper = (torch.rand(BATCH, n, n, generator=generator) < chance).triu(1).double()
    view = upper + upper.transpose(1, 2)
    degree = view.sum(2) + loop
    scale = lambda power: torch.where(degree > 0, degree.clamp(min=1) ** -power, 0.0)  # noqa: E731 - a formula
    return (view * scale(a)[:, :, None] * scale(b)[:, None, :]).sum(0)


def measured() -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Root mean square over edges of (mean over views) / moment − 1, by sum, kind of moment and number of views."""
    edge_index = KarateClub()[0].edge_index
    graph = Graph.from_edge_index(edge_index, 34)
    source, target = graph.pattern.source, graph.pattern.target
    adjacency = torch.zeros(34, 34).index_put((target, source), torch.ones(()))
    q = RHO * graph.num_edges / (graph.num_edges + graph.num_nonedges)
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for name, (a, b, loop) in SUMS.items():
        coefficients = Normalised(graph, torch.double, a, b, loop)
        moments = {
            way: coefficients.mean(Distribution(graph, Rates(P, q), correction=Correction(moments=way))).edges
            for way in WAYS
        }
        total, generator = torch.zeros(34, 34, dtype=torch.double), torch.Generator().manual_seed(0)
        found[name] = {way: [] for way in WAYS}
        for batch in range(1, VIEWS // BATCH + 1):
            total += sampled(adjacency, q, a, b, loop, generator)
            if batch in (1, 3, 10, 30, 100, 300):
                mean = (total / (batch * BATCH))[target, source]
                for way, moment in moments.items():
                    found[name][way].append((batch * BATCH, float((mean / moment - 1).square().mean().sqrt())))
    return found


def kept() -> dict[str, dict[str, list[tuple[int, float]]]]:
    """The numbers beside this script; measured if there are none."""
    file = HERE / "moments.json"
    if not file.exists():
        file.write_text(json.dumps(measured(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    found: dict[str, dict[str, list[tuple[int, float]]]] = json.loads(file.read_text("utf-8"))
    return found


def content(figure: Figure, colours: Colours) -> None:
    """The distance to what is exact falls with the square root of the number of views."""
    found = kept()
    for panel, (name, ways) in zip(figure.subplots(1, len(found), sharey=True), found.items()):
        for way, points in ways.items():
            label, colour, marker = WAYS[way]
            views, errors = zip(*points)
            panel.plot(views, errors, color=colours[colour], marker=marker, markersize=4, label=f"to {label}")
        first = ways["exact"][0]
        slope = [first[1] * (first[0] / count) ** 0.5 for count in views]
        panel.plot(views, slope, color=colours["faint"], linestyle=":", label="∝ 1 / √views")
        panel.set(title=name, xscale="log", yscale="log", xlabel="random views")
        panel.set_yticks(SHARES, [f"{share:.1%}" for share in SHARES])
        panel.minorticks_off()
        panel.grid()
    figure.axes[0].set_ylabel("distance of Monte Carlo means,\nrms over edges")
    figure.axes[0].legend(fontsize=8)


if __name__ == "__main__":
    draw("moments", (9.5, 3.4), content)
