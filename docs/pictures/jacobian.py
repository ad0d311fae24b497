"""How much of a node's feature arrives at others, by distance: a two-layer GCN on a ring, RADE-OF and RADE-OFS."""

import torch
from matplotlib.figure import Figure
from style import Colours, draw
from torch_geometric.nn import GCN

import rade

NODES, LAYERS, NETS = 24, 2, 20


def ring() -> torch.Tensor:
    """Every node between two neighbors; both directions."""
    node = torch.arange(NODES)
    after = (node + 1) % NODES
    return torch.stack([torch.cat([node, after]), torch.cat([after, node])])


def by_distance(variant: str) -> torch.Tensor:
    """Mean over random networks of ‖∂h_0/∂x_j‖ at inference, by the distance of j, over its value at distance 0."""
    total = torch.zeros(NODES // 2 + 1)
    for seed in range(NETS):
        torch.manual_seed(seed)
        net = GCN(8, 32, LAYERS, 8)
        model = rade.RADE(net, variant, rule=rade.Constant(p=0.5, rho=0.5)).train()
        x = torch.randn(NODES, 8)
        model(x, ring())  # the first training graph gives the density
        model.eval()
        jacobian = torch.autograd.functional.jacobian(lambda x, model=model: model(x, ring())[0], x)
        norm = jacobian.transpose(0, 1).flatten(1).norm(dim=1)  # [n]
        total += norm[: NODES // 2 + 1] / norm[0]
    return total / NETS


def content(figure: Figure, colours: Colours) -> None:
    """Two curves; what is 0 lies on the lower edge."""
    axes = figure.subplots()
    for variant, name, colour in (("of", "RADE-OF (and the plain GCN)", "blue"), ("ofs", "RADE-OFS", "orange")):
        values = by_distance(variant)
        axes.plot(values.clamp(min=1e-4), "o-", color=colours[colour], label=name)
    axes.set_yscale("log")
    axes.set_ylim(0.8e-4, 2)
    axes.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["0", "0.001", "0.01", "0.1", "1"])
    axes.minorticks_off()
    axes.set_xlabel("distance on the ring")
    axes.set_ylabel("sensitivity at inference, relative")
    axes.set_title(f"{LAYERS} layers reach {LAYERS} hops; expected additions reach every node", fontsize=11)
    axes.grid()
    axes.legend()


if __name__ == "__main__":
    draw("jacobian", (6.4, 3.4), content)
