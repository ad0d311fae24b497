"""The two notebooks, written from here and executed: `make notebooks`. What they show is what came out.

Cells are text below, so that changes can be read in a diff; the notebooks hold code, outputs and plots.
"""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parents[1] / "examples"
# Where Jupyter's widgets are not installed tqdm says so in every notebook that imports it.
WARNINGS = "ignore:IProgress not found"

FIRST_CONTACT = """
# First contact
A citation-like graph, a GCN, and one line of RADE. The data are embedded: a contextual stochastic block model whose parameters were fixed before anybody looked (`rade.data.csbm`).
---
import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade

dataset = rade.data.csbm(labelled=50)
data, split = dataset.graphs[0], dataset.split(run=0)
print(data, f"{dataset.classes} classes, {len(split.train)} labels")
---
## Will it work on my model?
`rade.check` says so before any training.
---
net = GCN(dataset.features, 64, 2, dataset.classes)
print(rade.check(net, data.x, data.edge_index))
---
## The one line
`RADE(net)`, or with rates that adapt `RADE(net, rule=...).follow(optimizer)`; the loop stays as it was. `None` is the plain model.
---
def train(variant, seed, epochs=80):
    torch.manual_seed(seed)
    net = GCN(dataset.features, 64, 2, dataset.classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    model = net if variant is None else rade.RADE(net, variant, rule=rade.NoiseRatio()).follow(optimizer)
    rates, scores = [], []
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(data.x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(data.x, data.edge_index).argmax(1) == data.y).float()
        scores.append((float(right[split.val].mean()), float(right[split.test].mean())))
        rates.append(0.0 if variant is None else float(model.rates.p))
    return max(scores)[1], [test for _, test in scores], rates
---
variants = {"plain": None, "RADE-OF": "of", "RADE-OFS": "ofs"}
runs = {name: [train(variant, seed) for seed in range(5)] for name, variant in variants.items()}
for name, of in runs.items():
    best = torch.tensor([score for score, _, _ in of])
    print(f"{name:9} test accuracy {best.mean():.1%} ± {best.std():.1%}")
---
## Does it help here?
Differences seed by seed, with a 95 % interval. If it holds 0, five seeds do not tell.
---
plain = torch.tensor([score for score, _, _ in runs["plain"]])
for name in ("RADE-OF", "RADE-OFS"):
    gap = torch.tensor([score for score, _, _ in runs[name]]) - plain
    reach = 2.776 * gap.std() / 5**0.5
    print(f"{name:9} − plain: {gap.mean():+.1%} [{gap.mean() - reach:.1%}, {gap.mean() + reach:.1%}]")
---
## Curves
Test accuracy over epochs (mean over seeds), and the drop rate, which the rule moves by itself.
---
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for name, of in runs.items():
    left.plot(torch.tensor([curve for _, curve, _ in of]).mean(0), label=name)
    if name != "plain":
        right.plot(torch.tensor([rates for _, _, rates in of]).mean(0), label=name)
left.set(xlabel="epoch", ylabel="test accuracy")
right.set(xlabel="epoch", ylabel="drop rate p")
for axes in (left, right):
    axes.grid(alpha=0.3)
    axes.legend();
---
Next: the guide to `RADE(model)` (docs/wrapper.md), how to read rates (docs/rates.md), and the other notebook, on long ranges.
"""

LONG_RANGE = """
# Long-range messages with RADE-OFS
A class must travel half-way round a ring of ten nodes, five hops, to a model with two layers. No plain two-layer model can hear it. RADE-OFS keeps the expected contribution of added edges at inference, so that every node hears a weighted sum of all others.
---
import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade

dataset = rade.data.ring_transfer(rings=150, size=10)
data, split = dataset.graphs[0], dataset.split(run=0)
print(data, f"{dataset.classes} classes: chance is {1 / dataset.classes:.0%}")
---
## How far does a model hear?
The size of ∂(output of node 0)/∂(feature of node j) by distance, at inference, for untrained models.
---
ring = torch.tensor([[i, (i + step) % 10] for i in range(10) for step in (1, 9)]).t()


def hears(variant):
    torch.manual_seed(0)
    model = rade.RADE(GCN(4, 32, 2, 4), variant, rule=rade.Constant(p=0.5, rho=0.5)).train()
    x = torch.randn(10, 4)
    model(x, ring)  # the first training graph gives the density
    jacobian = torch.autograd.functional.jacobian(lambda x: model.eval()(x, ring)[0], x)
    return jacobian.transpose(0, 1).flatten(1).norm(dim=1)[:6]


for variant in ("of", "ofs"):
    print(variant, [round(float(value), 4) for value in hears(variant)])
---
Zero beyond two hops for RADE-OF, which is the plain model at inference; not for RADE-OFS.
---
## Training
---
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gnn, self.head = GCN(dataset.features, 32, 2), torch.nn.Linear(32, dataset.classes)

    def forward(self, x, edge_index, batch):
        return self.head(self.gnn(x, edge_index).relu())


def train(variant, epochs=80):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    model = net if variant is None else rade.RADE(net, variant, rule=rade.Constant(p=0.5, rho=0.5))
    scores = []
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(data.x, data.edge_index, data.batch)[split.train], data.y[split.train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(data.x, data.edge_index, data.batch).argmax(1) == data.y
        scores.append(float(right[split.test].float().mean()))
    return scores


curves = {name: train(variant) for name, variant in (("plain", None), ("RADE-OF", "of"), ("RADE-OFS", "ofs"))}
print({name: f"{curve[-1]:.0%}" for name, curve in curves.items()})
---
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, curve in curves.items():
    axes.plot(curve, label=name)
axes.axhline(1 / dataset.classes, color="gray", linestyle=":", label="chance")
axes.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1.05))
axes.grid(alpha=0.3)
axes.legend();
---
What it shows: a signal that one far node holds arrives. What it does not show: that RADE-OFS could tell *which* far node holds it; the sum does not say.
"""

NOTEBOOKS = {"first_contact": FIRST_CONTACT, "long_range": LONG_RANGE}


def notebook(text: str) -> nbformat.NotebookNode:
    """Cells are separated by lines of three dashes; those that begin like prose are Markdown."""
    cells = []
    for number, part in enumerate(text.strip().split("\n---\n")):
        prose = part.startswith("#") or part.endswith((".", "?"))
        cell = (new_markdown_cell if prose else new_code_cell)(part)
        cell["id"] = f"cell-{number}"  # the same file each time
        cells.append(cell)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return new_notebook(cells=cells, metadata=kernel)


def executed(content: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with its outputs, without the times of execution."""
    os.environ["PYTHONWARNINGS"] = WARNINGS
    NotebookClient(content, timeout=300, kernel_name="python3", record_timing=False).execute()
    return content


def main() -> None:
    """Write both."""
    for name, text in NOTEBOOKS.items():
        nbformat.write(executed(notebook(text)), FOLDER / f"{name}.ipynb")
        print(f"examples/{name}.ipynb")


if __name__ == "__main__":
    main()
