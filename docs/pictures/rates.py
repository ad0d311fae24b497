"""How p and q move during training: two rules, both variants, on the embedded block model."""

import torch
from matplotlib.figure import Figure
from style import Colours, draw
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade

EPOCHS = 150
RULES = {
    "GradNorm, lr 0.01 (the paper's rule)": (rade.GradNorm(lr=0.01), "blue"),
    "NoiseRatio": (rade.NoiseRatio(), "orange"),
}


def trajectory(rule: rade.Rule, variant: str) -> tuple[list[float], list[float]]:
    """p and q/density after every step."""
    dataset = rade.data.csbm()
    data, split = dataset.graphs[0], dataset.split(run=0)
    torch.manual_seed(0)
    net = GCN(dataset.features, 64, 2, dataset.classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    model = rade.RADE(net, variant, rule=rule, generator=torch.Generator().manual_seed(0)).follow(optimizer)
    p, rho = [], []
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(data.x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimizer.step()
        p.append(float(model.rates.p))
        rho.append(float(model.rates.q) / dataset.density)
    return p, rho


CURVES = {(name, variant): trajectory(rule, variant) for name, (rule, _) in RULES.items() for variant in ("of", "ofs")}


def content(figure: Figure, colours: Colours) -> None:
    """Drop rates on the left, add rates on the right."""
    panels = figure.subplots(1, 2)
    for (name, variant), curves in CURVES.items():
        for panel, values in zip(panels, curves):
            label = f"{name}, RADE-{variant.upper()}"
            panel.plot(values, color=colours[RULES[name][1]], linestyle="-" if variant == "of" else "--", label=label)
    for panel, label in zip(panels, ("drop rate p", "add rate q over the density")):
        panel.set_xlabel("step")
        panel.set_ylabel(label)
        panel.set_ylim(0, None)
        panel.grid()
    panels[1].legend(fontsize=8)


if __name__ == "__main__":
    draw("rates", (9.5, 3.2), content)
