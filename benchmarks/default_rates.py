"""What the default costs a tuned model on a new graph, and which part of it does: one JSON line per run.

    python -m benchmarks.default_rates --seeds 10 --out default_rates.jsonl
    python -m benchmarks.default_rates --table default_rates.jsonl
    python -m benchmarks.default_rates --part 0/2               # every second run, for several processes

Block models of 2,000 nodes and mean degree 5 (5 classes; features that say little, much, or mislead one node in five),
5 or 30 % of the nodes labelled. Three-layer models as people tune them: GraphSAGE with batch norm, residuals and
dropout, the same without batch norm, and a GCN with batch norm. Early stopping on a tenth of the nodes, patience 30.
Each line is paired with plain training on the same graph, split and first parameters.

Lines that are in the file already are not computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.study import add, asked, distinct, fit, of_class
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv

import rade
from rade.statistics import paired, spread

NODES, CLASSES, FEATURES, WIDTH, DEGREE = 2_000, 5, 32, 64, 5.0
GRAPHS = {"clear": (0.8, 1.0, 0.0), "faint": (0.65, 0.5, 0.0), "misled": (0.8, 1.0, 0.2)}  # within, signal, misled
SHARES = (0.05, 0.3)
RATES = {
    "plain": None,
    "p 0.2 rho 0.2": (0.2, 0.2),
    "p 0.2 rho 0": (0.2, 0.0),
    "p 0 rho 0.2": (0.0, 0.2),
    "p 0.1 rho 0.1": (0.1, 0.1),
    "p 0.1 rho 0": (0.1, 0.0),
}
MODELS = {"sage-bn": (SAGEConv, True), "sage": (SAGEConv, False), "gcn-bn": (GCNConv, True)}
EPOCHS, PATIENCE, VALIDATION = 200, 30, 0.1
NAMES = ("graph", "share", "model", "rates", "seed")


class Tuned(nn.Module):
    """Three layers with residuals, dropout and, if asked for, batch norm."""

    def __init__(self, layer: type[nn.Module], norm: bool) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList([layer(WIDTH, WIDTH) for _ in range(3)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) if norm else nn.Identity() for _ in range(3)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.encoder(x).relu()
        for layer, norm in zip(self.layers, self.norms):
            x = x + F.dropout(norm(layer(x, edge_index)).relu(), 0.5, self.training)
        return self.head(x)


def block_model(kind: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges and classes of one graph."""
    within, signal, misled = GRAPHS[kind]
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (NODES,), generator=generator)
    count = int(NODES * DEGREE / 2)
    one = torch.randint(NODES, (count,), generator=generator)
    other = torch.randint(NODES, (count,), generator=generator)
    same = torch.rand(count, generator=generator) < within
    low, high = distinct(one, torch.where(same, of_class(y, y[one], generator), other))
    seen = torch.where(
        torch.rand(NODES, generator=generator) < misled, torch.randint(CLASSES, (NODES,), generator=generator), y
    )
    centres = torch.randn(CLASSES, FEATURES, generator=generator)
    x = signal * centres[seen] + 2.0 * torch.randn(NODES, FEATURES, generator=generator)
    return x, torch.cat([torch.stack([low, high]), torch.stack([high, low])], 1), y


def score(kind: str, share: float, name: str, rates: str, seed: int) -> float:
    """The test accuracy at the best validation epoch, in points."""
    x, edge_index, y = block_model(kind, seed)
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(1_000 + seed))
    train, rest = order[: int(share * NODES)], order[int(share * NODES) :]
    val, test = rest[: int(VALIDATION * NODES)], rest[int(VALIDATION * NODES) :]
    torch.manual_seed(seed)
    net = Tuned(*MODELS[name])
    chosen = RATES[rates]
    model = net if chosen is None else rade.RADE(net, rule=rade.Constant(*chosen))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    best, found, since = -1.0, 0.0, 0
    for _ in fit(model, optimizer, lambda: [F.cross_entropy(model(x, edge_index)[train], y[train])], EPOCHS):
        with torch.no_grad():
            right = (model(x, edge_index).argmax(1) == y).double()
        since += 1
        if float(right[val].mean()) > best:
            best, found, since = float(right[val].mean()), 100.0 * float(right[test].mean()), 0
        if since >= PATIENCE:
            break
    return found


def table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Paired differences to plain training in points, with 95 % intervals."""
    known = {tuple(row[name] for name in NAMES): row["test"] for row in rows}
    others = [rates for rates in RATES if rates != "plain"]
    yield f"| graph | labelled | model | plain | {' | '.join(others)} |"
    yield "|" + "---|" * (4 + len(others))
    for case in product(GRAPHS, SHARES, MODELS):
        plain = {seed: test for (*place, rates, seed), test in known.items() if (*place, rates) == (*case, "plain")}
        cells = []
        for rates in others:
            other = {seed: known.get((*case, rates, seed)) for seed in plain}
            pairs = [test - plain[seed] for seed, test in other.items() if test is not None]
            cells.append(str(paired(pairs)) if pairs else "")
        if plain:
            kind, share, name = case
            yield f"| {kind} | {share:.0%} | {name} | {spread(list(plain.values())).mean:.1f} | {' | '.join(cells)} |"


def main() -> None:
    options, done = asked(__doc__, "default_rates.jsonl", NAMES, table, seeds=10, part="0/1")
    number, count = map(int, options.part.split("/"))
    cases = list(product(GRAPHS, SHARES, MODELS, RATES))
    jobs = [(*case, seed) for seed in range(options.seeds) for case in cases]
    for job in jobs[number::count]:
        if job not in done:
            add(options.out, {**dict(zip(NAMES, job)), "test": score(*job)})


if __name__ == "__main__":
    main()
