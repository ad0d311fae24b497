"""The notebook, written from here and executed: `make notebooks`. What it shows is what came out.

Cells are text below, so that changes can be read in a diff; the notebook holds code, outputs and plots.
"""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parents[1] / "examples"
# Where Jupyter's widgets are not installed tqdm says so in every notebook that imports it.
WARNINGS = "ignore:IProgress not found"

DECISION = """
# From a PyG model to a decision, in ten minutes
Your model, one line, a check, a comparison with intervals, and a decision: here for two problems, with two answers. All data are made in this notebook, so that nothing is downloaded.
---
import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import rade


def with_masks(dataset):
    data, split = dataset.graphs[0], dataset.split(run=0)
    x = data.x if data.x.layout == torch.strided else data.x.to_dense()
    found = Data(x=x, edge_index=data.edge_index, y=data.y, batch=data.get("batch"))
    for name, rows in (("train", split.train), ("val", split.val), ("test", split.test)):
        found[f"{name}_mask"] = torch.zeros(len(x), dtype=torch.bool).index_fill(0, rows, True)
    return found


documents = with_masks(rade.data.csbm(labelled=50, content=rade.data.Words(300, topic=0.05)))
rings = with_masks(rade.data.ring_transfer(rings=150))
print("documents", documents)
print("rings    ", rings)
---
**Documents**: 1,000 texts of four topics that link to each other. **Rings**: 150 rings of ten nodes, of which the first must name a class that the opposite node holds, five hops away.
---
## 1. Your model
Any PyTorch Geometric model will do. This one has two convolutions and dropout.
---
class Net(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first, self.second = GCNConv(features, 64), GCNConv(64, 64)
        self.head = torch.nn.Linear(64, classes)

    def forward(self, x, edge_index, batch=None):
        x = self.first(x, edge_index).relu()
        x = self.second(dropout(x, 0.5, self.training), edge_index).relu()
        return self.head(x)


def for_documents():
    return Net(300, 4)


def for_rings():
    return Net(7, 5)
---
## 2. Does RADE support it?
`rade.check` answers before any training.
---
print(rade.check(for_documents(), documents.x, documents.edge_index, labelled=documents.train_mask))
---
## 3. One line
`rade.RADE(net)` goes where `net` was; the loop stays as it is. The rates are constant unless you give a rule. `follow(optimizer)` lets a rule act after every step.
---
def train(wrap, epochs=80):
    torch.manual_seed(0)
    net = for_documents()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    model = wrap(net, optimizer)
    scores, rates = [], []
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        logits = model(documents.x, documents.edge_index)
        cross_entropy(logits[documents.train_mask], documents.y[documents.train_mask]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(documents.x, documents.edge_index).argmax(1) == documents.y
        scores.append(float(right[documents.val_mask].float().mean()))
        rates.append(float(model.rates.p) if isinstance(model, rade.RADE) else 0.0)
    return scores, rates


runs = {
    "plain": train(lambda net, optimizer: net),
    "RADE(net), constant rates": train(lambda net, optimizer: rade.RADE(net)),
    "GradNorm, the paper's rule": train(lambda net, optimizer: rade.RADE(net, rule=rade.GradNorm()).follow(optimizer)),
    "NoiseRatio": train(lambda net, optimizer: rade.RADE(net, rule=rade.NoiseRatio()).follow(optimizer)),
}
---
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3), layout="constrained")
for number, (name, (scores, rates)) in enumerate(runs.items()):
    left.plot(scores, color=f"C{number}", label=name)
    if name != "plain":
        right.plot(rates, color=f"C{number}")
left.set(xlabel="epoch", ylabel="validation accuracy")
right.set(xlabel="epoch", ylabel="drop rate p", ylim=(0, None))
left.grid(alpha=0.3)
right.grid(alpha=0.3)
left.legend(fontsize=8);
---
## 4. Compare on the documents
One run proves nothing. `rade.compare` trains every method on the same seeds, stops early by the validation nodes, and pairs the differences. A method is a name, or a function from your model to the model that is trained.
---
methods = {
    "none": "none",
    "drop-edge": "drop-edge",
    "rade": "rade",
    "rade-ofs": lambda net: rade.RADE(net, "ofs"),
}
answer = rade.compare(for_documents, documents, methods, seeds=10)
print(answer)
---
answer.plot()
---
**Decision: keep the plain model.** No method is better beyond its interval, and DropEdge is worse. Here RADE would cost time and bring nothing.
---
## 5. Compare on the rings
---
answer = rade.compare(for_rings, rings, methods, seeds=10)
print(answer)
---
answer.plot()
---
**Decision: RADE-OFS.** Two layers see two hops, so the plain model can only guess. (Chance is 20 %, and less on a test part that has fewer of the class that the training part has more of.) RADE-OFS keeps the expected messages of added edges at inference and reaches every node. A deeper model or a virtual node may do so as well: compare them too, as functions.
---
## 6. Deploy
With RADE-OF inference is plain: `rade.revert(model)` gives your PyG model back. RADE-OFS keeps expected additions at inference, so keep the wrapper; it exports as well.

Now put your own `Net` and `data` into step 4. Take a method that is better beyond its interval; keep the plain model where none is.
"""

NOTEBOOKS = {"from_model_to_decision": DECISION}


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
    NotebookClient(content, timeout=900, kernel_name="python3", record_timing=False).execute()
    return content


def main() -> None:
    """Write all there are."""
    for name, text in NOTEBOOKS.items():
        nbformat.write(executed(notebook(text)), FOLDER / f"{name}.ipynb")
        print(f"examples/{name}.ipynb")


if __name__ == "__main__":
    main()
