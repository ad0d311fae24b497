"""What the default costs a tuned model on a new graph, and which part of it does: one JSON line per run.

    python benchmarks/default_rates.py --seeds 10 --out default_rates.jsonl
    python benchmarks/default_rates.py --table default_rates.jsonl

Block models of 2,000 nodes and mean degree 5 (5 classes; features that say little, much, or mislead one node in five),
5 or 30 % of the nodes labelled. Three-layer models as people tune them: GraphSAGE with batch norm, residuals and
dropout, the same without batch norm, and a GCN with batch norm. Early stopping on a tenth of the nodes, patience 30.
Each line is paired with plain training on the same graph, split and first parameters.

Lines that are in the file already are not computed again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from scipy.stats import t as student
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv

import rade

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
    order, sizes = torch.argsort(y, stable=True), torch.bincount(y, minlength=CLASSES)
    first = sizes.cumsum(0) - sizes
    inside = order[first[y[one]] + (torch.rand(count, generator=generator) * sizes[y[one]]).long()]
    other = torch.where(same, inside, other)
    pairs = torch.stack([torch.minimum(one, other), torch.maximum(one, other)])[:, one != other]
    low, high = torch.unique(pairs, dim=1)
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
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x, edge_index)[train], y[train]).backward()
        optimizer.step()
        with torch.no_grad():
            right = (model.eval()(x, edge_index).argmax(1) == y).double()
        since += 1
        if float(right[val].mean()) > best:
            best, found, since = float(right[val].mean()), 100.0 * float(right[test].mean()), 0
        if since >= PATIENCE:
            break
    return found


def table(rows: list[dict[str, object]]) -> Iterator[str]:
    """Paired differences to plain training in points, with 95 % intervals."""
    known = {(r["graph"], r["share"], r["model"], r["rates"], r["seed"]): float(str(r["test"])) for r in rows}
    yield "| graph | labelled | model | plain | " + " | ".join(name for name in RATES if name != "plain") + " |"
    yield "|" + "---|" * (len(RATES) + 3)
    for kind, share, name in product(GRAPHS, SHARES, MODELS):
        seeds = sorted({s for g, h, m, r, s in known if (g, h, m, r) == (kind, share, name, "plain")}, key=str)
        if not seeds:
            continue
        plain = [known[kind, share, name, "plain", seed] for seed in seeds]
        cells = []
        for rates in [one for one in RATES if one != "plain"]:
            pairs = [known[kind, share, name, rates, s] - known[kind, share, name, "plain", s] for s in seeds
                     if (kind, share, name, rates, s) in known]  # fmt: skip
            half = (
                student.ppf(0.975, len(pairs) - 1) * stdev(pairs) / len(pairs) ** 0.5
                if len(pairs) > 1
                else float("nan")
            )
            cells.append(f"{mean(pairs):+.1f} [{mean(pairs) - half:+.1f}, {mean(pairs) + half:+.1f}]" if pairs else "")
        yield f"| {kind} | {share:.0%} | {name} | {mean(plain):.1f} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--part", default="0/1", help="k/n: every n-th run, from the k-th on, for several processes")
    parser.add_argument("--out", type=Path, default=Path("default_rates.jsonl"))
    parser.add_argument("--table", type=Path, help="print the table of a file, or of several in a folder")
    options = parser.parse_args()
    if options.table is not None:
        files = sorted(options.table.glob("*.jsonl")) if options.table.is_dir() else [options.table]
        print("\n".join(table([json.loads(line) for file in files for line in file.read_text().splitlines()])))
        return
    torch.set_num_threads(1)
    done = set()
    if options.out.exists():
        rows = map(json.loads, options.out.read_text().splitlines())
        done = {(row["graph"], row["share"], row["model"], row["rates"], row["seed"]) for row in rows}
    number, count = map(int, options.part.split("/"))
    jobs = [
        (k, s, m, r, seed) for seed in range(options.seeds) for k, s, m, r in product(GRAPHS, SHARES, MODELS, RATES)
    ]
    for job in jobs[number::count]:
        if job in done:
            continue
        names = ("graph", "share", "model", "rates", "seed")
        row = {**dict(zip(names, job)), "test": score(*job), "rade": rade.__version__, "torch": torch.__version__}
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
