"""One rank of a distributed run: trains, adapts, saves and resumes, and writes what it saw as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[1]))  # a process of its own, which pytest tells no path

import rade
from adapting import adapting
from own_rule import Slow
from zoo import LAYERS, Net, normal, random_edges, seeded

STEPS = 5


def inputs(part: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ranks hold graphs of different size and density."""
    nodes = 30 + 10 * part
    return normal(nodes, 8, seed=part), random_edges(nodes, 60 + 40 * part, seed=part), torch.arange(nodes) % 3


def train(layer: str, part: int) -> dict[str, Any]:
    """Five steps under DDP, then a checkpoint of rank 0 that every rank resumes."""
    x, edges, y = inputs(part)
    torch.manual_seed(0)
    model = adapting(seeded(lambda: Net(LAYERS[layer])), views=rade.Views(shared=True))
    net = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    views: list[rade.View] = []
    draw = model._context.draw
    model._context.draw = lambda distribution: views.append(draw(distribution)) or views[-1]  # type: ignore
    trajectory = []
    for _ in range(STEPS):
        net.train()
        optimizer.zero_grad()
        cross_entropy(net(x, edges), y).backward()
        optimizer.step()
        model.adapt(x, edges)
        trajectory.append([float(model.rates.p), float(model.rates.q)])
    state = [model.state_dict()]
    dist.broadcast_object_list(state, src=0)
    model.load_state_dict(state[0])
    resumed = [rade.sample_view(rade.Graph.from_edge_index(inputs(0)[1], 30), model.rates, model._context.generator)]
    return {
        "trajectory": trajectory,
        "density": float(model.rate_state.density),
        "weights": [float(p.sum()) for p in model.parameters()],
        "views": [int(view.kept.sum()) for view in views],
        "resumed": resumed[0].edge_index.tolist(),
    }


def same_data() -> list[float]:
    """Equal data on both ranks and no views in G_data: the average over ranks is what one process computes."""
    x, edges, y = inputs(0)
    model = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), rule=rade.GradNorm(data_gradient="clean"))
    for _ in range(3):
        model.adapt(x, edges, labelled=rade.Labelled(loss=lambda logits: cross_entropy(logits, y)))
    return [float(value) for value in model.rate_state.first]


def own_rule(rank: int) -> list[float]:
    """A user's rule with memory: three steps on different data; the average and the rates after each."""
    x, edges, y = inputs(rank)
    model = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), rule=Slow())
    net = DistributedDataParallel(model)
    found: list[float] = []
    for _ in range(3):
        net.zero_grad()
        cross_entropy(net(x, edges), y).backward()
        model.adapt(x, edges)
        found += [float(model.rate_state.average), model.rates.p, model.rates.q]
    return found


def followed(rank: int) -> list[float]:
    """`follow` under DDP: the loop has no line for the rates."""
    x, edges, y = inputs(rank)
    model = adapting(seeded(lambda: Net(LAYERS["GCNConv"])))
    net = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    model.follow(optimizer)
    found: list[float] = []
    for _ in range(3):
        optimizer.zero_grad()
        cross_entropy(net(x, edges)[:20], y[:20]).backward()
        optimizer.step()
        found += [model.rates.p, model.rates.q]
    return found


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found = {layer: train(layer, rank) for layer in ("GCNConv",)}
    result = {**found, "same": same_data()}
    result["own rule"], result["followed"] = own_rule(rank), followed(rank)
    torch.manual_seed(0)
    first = adapting(seeded(lambda: Net(LAYERS["GCNConv"])))
    result["seeds"] = first._context.generator.initial_seed()
    (folder / f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
