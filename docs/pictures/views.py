"""Two views of a small graph, what they do to one node's sum, and what correction makes of it."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from style import Colours, draw

import rade
from rade.correction import Adjacency
from rade.distribution import Distribution
from rade.moments import Normalised
from rade.views import draw as draw_view

EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4), (4, 5), (5, 6), (3, 6)]
PLACES = np.array([[0.0, 0.0], [-1.1, 0.9], [-1.1, -0.9], [1.1, 0.25], [1.9, 1.0], [2.7, 0.1], [1.7, -0.9]])
SEEDS = (0, 2)  # of the views, for legibility
RATES = rade.Rates(p=0.4, q=0.15)


def weights(adjacency: Adjacency) -> torch.Tensor:
    """Row i: the weight of every other node in the sum at node i, [n, n]."""
    graph = adjacency.graph
    return adjacency.aggregate(Normalised.symmetric(graph, torch.float64), torch.eye(graph.num_nodes).double())


def nodes_and_edges(axes: Axes, dense: torch.Tensor, clean: torch.Tensor, colours: Colours) -> None:
    """Lines as wide as the weight at node 0; dropped edges dotted, added ones in another colour."""
    for i in range(len(PLACES)):
        for j in range(i):
            there, was = bool(dense[i, j] != 0), bool(clean[i, j] != 0)
            if not (there or was):
                continue
            colour = colours["faint"] if not there else colours["blue"] if was else colours["orange"]
            x, y = PLACES[[i, j]].T
            line = {"linewidth": 2.4, "linestyle": "-"} if there else {"linewidth": 1.0, "linestyle": ":"}
            axes.plot(x, y, color=colour, zorder=1, **line)
    axes.scatter(*PLACES.T, s=150, color=colours["text"], zorder=2)
    axes.scatter(*PLACES[:1].T, s=150, color=colours["green"], zorder=3)
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.12)


def numbers(axes: Axes, corrected: torch.Tensor, shown: torch.Tensor, colours: Colours) -> None:
    """The weight of a neighbor in the sum at the green node, on the edge between them."""
    for j in range(1, len(PLACES)):
        if shown[0, j] != 0:
            across = PLACES[j] - PLACES[0]
            away = 12 * np.array([-across[1], across[0]]) / np.linalg.norm(across)
            away = -away if away[0] < 0 else away
            where = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": 9}
            axes.annotate(f"{corrected[0, j]:.2f}", 0.55 * PLACES[j], away, **where)


def content(figure: Figure, colours: Colours) -> None:
    """Clean graph, two views, mean over many."""
    low, high = torch.tensor(EDGES).t()
    graph = rade.Graph.from_edge_index(torch.stack([torch.cat([low, high]), torch.cat([high, low])]), len(PLACES))
    views = Distribution(graph, RATES)
    clean = weights(Adjacency(graph))
    panels = figure.subplots(1, 4)
    nodes_and_edges(panels[0], clean, clean, colours)
    numbers(panels[0], clean, clean, colours)
    panels[0].set_title("the graph", fontsize=11)
    for number, (panel, seed) in enumerate(zip(panels[1:3], SEEDS)):
        view = draw_view(views, torch.Generator().manual_seed(seed))
        there = torch.zeros_like(clean)
        there[view.edge_index[0], view.edge_index[1]] = 1
        corrected = weights(Adjacency(graph, views, view))
        nodes_and_edges(panel, there, clean, colours)
        numbers(panel, corrected, there, colours)
        panel.set_title(f"view {number + 1}", fontsize=11)
    many = (draw_view(views, torch.Generator().manual_seed(seed)) for seed in range(4000))
    mean = sum(weights(Adjacency(graph, views, view)) for view in many) / 4000
    nodes_and_edges(panels[3], clean, clean, colours)
    numbers(panels[3], mean, clean, colours)
    panels[3].set_title("mean of 4,000 views", fontsize=11)
    legend = "numbers: weight of a node in the sum at the green node (GCN, p = 0.4, q = 0.15, RADE-OF)\n"
    legend += "blue: kept, dotted: dropped, orange: added"
    figure.supxlabel(legend, fontsize=9)


if __name__ == "__main__":
    draw("views", (9.0, 2.0), content)
