"""Your own two-layer GCN, wrapped in one line: `RADE(net).follow(optimizer)`, and the training loop stays as it was.

The data are a contextual stochastic block model whose parameters were fixed before anybody looked at results on it
(`rade.data.csbm`): a new graph for every seed, 20 labels per class. What comes out is printed with an interval, and is
no promise for your data; `make demo` asks four questions, of other graphs too.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv

import rade

EPOCHS, SEEDS = 40, 5


class GCN(torch.nn.Module):
    """Nothing of RADE in here."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, hidden)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        logits: Tensor = self.head(x)
        return logits


def accuracy(model: torch.nn.Module, x: Tensor, edge_index: Tensor, y: Tensor, index: Tensor) -> float:
    """The share of correct predictions among ``index``."""
    model.eval()
    with torch.no_grad():
        return float((model(x, edge_index).argmax(1) == y)[index].float().mean())


def train(seed: int, wrap: bool) -> float:
    """Test accuracy at the best validation epoch."""
    dataset = rade.data.csbm(seed=seed)
    data, split = dataset.graphs[0], dataset.split(run=0)
    torch.manual_seed(seed)
    net = GCN(dataset.features, 64, dataset.classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    model = rade.RADE(net, rule=rade.GradNorm(lr=1e-2)).follow(optimizer) if wrap else net  # the one line
    best, state = -1.0, model.state_dict()
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(data.x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimizer.step()  # the rates take a step, too
        score = accuracy(model, data.x, data.edge_index, data.y, split.val)
        if score > best:
            best, state = score, {name: value.clone() for name, value in model.state_dict().items()}
    if isinstance(model, rade.RADE):
        rho = model.rate_state.rho_now
        print(f"  seed {seed}: p from 0.5 to {model.rates.p:.3f}, ρ = q/density from 0.5 to {rho:.3f}")
    model.load_state_dict(state)
    return accuracy(model, data.x, data.edge_index, data.y, split.test)


def main() -> None:
    scores = {}
    for name, wrap in (("plain GCN", False), ("RADE-OF", True)):
        scores[name] = torch.tensor([train(seed, wrap) for seed in range(SEEDS)])
        print(f"{name}: test accuracy {scores[name].mean():.1%} ± {scores[name].std():.1%} over {SEEDS} graphs")
    gap = scores["RADE-OF"] - scores["plain GCN"]
    reach = 2.776 * float(gap.std()) / SEEDS**0.5  # Student's t for five pairs
    print(f"difference {gap.mean():+.1%}, 95 % interval {gap.mean() - reach:.1%} to {gap.mean() + reach:.1%}")


if __name__ == "__main__":
    main()
