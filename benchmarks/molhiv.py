"""OGB's molecule model with bonds, in our own words, on ogbg-molhiv: plain, RADE-OF and RADE-OFS; a line for each run.

    python -m benchmarks.molhiv --molecules 3000 --epochs 8 --seeds 3 --out molhiv.jsonl
    python -m benchmarks.molhiv --table molhiv.jsonl

Atoms and bonds are sums of embeddings of their columns, every layer has a bond encoder, GINEConv sums ReLU(x_j + bond),
nodes are averaged. Training is at a reduced size (a random part of the training molecules, few epochs, a narrow
network), validation and test are the whole scaffold split; the published model has five layers of width 300 and 100
epochs. RADE takes the network as it is: an added edge gets the mean bond of its molecule. Lines that are in the file
already are not computed again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from benchmarks.study import add, asked, fit
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, dropout
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_mean_pool

import rade
from rade.train.tasks import METRICS

FOLDER = "ogbg_molhiv"
PARTS = ("train", "valid", "test")
METHODS = ("none", "rade-of", "rade-ofs")
LAYERS, WIDTH, BATCH, LEARNING_RATE = 3, 64, 128, 1e-3
RULE = rade.GradNorm(p=0.2, rho=0.2, penalty=0.1, max_p=0.9)


@dataclass(frozen=True, eq=False)
class Molecules:
    """All molecules one after another, as OGB's files have them, and the ids of the scaffold split."""

    atoms: Tensor  # [n, 9] categories
    bonds: Tensor  # [m, 3] categories
    ends: Tensor  # [2, m] within the molecule, each bond once
    first_atom: Tensor  # [B + 1]
    first_bond: Tensor  # [B + 1]
    active: Tensor  # [B, 1]
    split: dict[str, Tensor]

    @staticmethod
    def read(folder: Path) -> Molecules:
        """From the csv files of OGB's download."""
        if not (folder / "raw").is_dir():
            raise SystemExit(
                f"expected OGB's files in {folder}; `rade datasets import DIR ogbg-molhiv` puts them there, RADE_DATA "
                "names the folder above"
            )
        table = {
            name: torch.from_numpy(_table(folder / "raw" / f"{name}.csv.gz"))
            for name in ("node-feat", "edge-feat", "edge", "num-node-list", "num-edge-list", "graph-label")
        }
        split = {part: torch.from_numpy(_table(folder / "split/scaffold" / f"{part}.csv.gz"))[:, 0] for part in PARTS}
        atoms, bonds = (_pointer(table[f"num-{kind}-list"][:, 0]) for kind in ("node", "edge"))
        active = table["graph-label"].float()
        return Molecules(table["node-feat"], table["edge-feat"], table["edge"].t(), atoms, bonds, active, split)

    def data(self, index: Tensor) -> list[Data]:
        """Some molecules as PyG has them, with both directions of every bond."""
        found = []
        for k in index.tolist():
            atoms, bonds = (slice(int(first[k]), int(first[k + 1])) for first in (self.first_atom, self.first_bond))
            ends, kinds = self.ends[:, bonds], self.bonds[bonds]
            both = torch.cat([ends, ends.flip(0)], 1), torch.cat([kinds, kinds])
            found.append(Data(self.atoms[atoms], *both, y=self.active[k : k + 1]))
        return found

    @property
    def kinds(self) -> tuple[list[int], list[int]]:
        """How many categories each column of atoms and of bonds has."""
        return tuple((table.amax(0) + 1).tolist() for table in (self.atoms, self.bonds))  # type: ignore[return-value]


def _table(path: Path) -> Any:
    return np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=2)


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class Categories(nn.Module):
    """The sum of one embedding for each column."""

    def __init__(self, kinds: list[int], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(count, width) for count in kinds])

    def forward(self, columns: Tensor) -> Tensor:
        return torch.stack([table(columns[:, k]) for k, table in enumerate(self.tables)]).sum(0)


class BondNet(nn.Module):
    """Atom encoder, layers of GINEConv with a bond encoder each, batch norm, mean over atoms; nothing of RADE."""

    def __init__(self, atoms: list[int], bonds: list[int], width: int = WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        self.atoms, self.head = Categories(atoms, width), nn.Linear(width, 1)
        self.bonds = nn.ModuleList([Categories(bonds, width) for _ in range(layers)])
        self.convs = nn.ModuleList([GINEConv(self._network(width)) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(layers)])

    @staticmethod
    def _network(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor, batch: Tensor) -> Tensor:
        h = self.atoms(x)
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            h = norm(conv(h, edge_index, self.bonds[k](edge_attr)))
            h = dropout(h.relu() if k + 1 < len(self.convs) else h, 0.2, self.training)
        out: Tensor = self.head(global_mean_pool(h, batch))
        return out


def wrapped(net: nn.Module, method: str, graphs: list[Data]) -> nn.Module:
    """The network alone or in RADE; the density is that of the training molecules."""
    if method == "none":
        return net
    edges = sum(int(data.num_edges) for data in graphs)
    pairs = sum(int(data.num_nodes) * (int(data.num_nodes) - 1) for data in graphs)
    readout = rade.Readout(task="binary", pool="mean")
    return rade.RADE(net, method.removeprefix("rade-"), rule=RULE, readout=readout, density=edges / max(pairs, 1))


@torch.no_grad()
def score(model: nn.Module, graphs: list[Data]) -> float:
    """ROC-AUC."""
    model.eval()
    out = [(model(b.x, b.edge_index, b.edge_attr, b.batch), b.y) for b in DataLoader(graphs, 512)]
    return METRICS["roc-auc"](*(torch.cat(part) for part in zip(*out)))


def run(molecules: Molecules, method: str, seed: int, size: int, epochs: int) -> dict[str, Any]:
    """Train once; the test score is that of the epoch with the best validation score."""
    torch.manual_seed(seed)
    order = torch.randperm(len(molecules.split["train"]), generator=torch.Generator().manual_seed(seed))[:size]
    train = molecules.data(molecules.split["train"][order])
    valid, test = (molecules.data(molecules.split[part]) for part in ("valid", "test"))
    model = wrapped(BondNet(*molecules.kinds), method, train)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    if isinstance(model, rade.RADE):
        model.follow(optimizer)
    loader = DataLoader(train, BATCH, shuffle=True, generator=torch.Generator().manual_seed(seed))
    best, began = {"validation": -1.0}, time.process_time()

    def losses() -> Iterator[Tensor]:
        for b in loader:
            yield binary_cross_entropy_with_logits(model(b.x, b.edge_index, b.edge_attr, b.batch), b.y)

    for epoch in fit(model, optimizer, losses, epochs):
        validation = score(model, valid)
        if validation > best["validation"]:
            best = {"validation": validation, "test": score(model, test), "epoch": epoch + 1}
    rates = (model.rates.p, model.rates.q) if isinstance(model, rade.RADE) else (0.0, 0.0)
    found = {"dataset": "ogbg-molhiv", "method": method, "seed": seed, "molecules": len(train), "epochs": epochs}
    found |= {"layers": LAYERS, "width": WIDTH, "p": rates[0], "q": rates[1], "seconds": time.process_time() - began}
    return found | best


def table(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Test ROC-AUC in %, mean ± standard deviation over seeds, and paired differences to the plain network."""
    rows = list(lines)
    of = {method: {row["seed"]: 100 * row["test"] for row in rows if row["method"] == method} for method in METHODS}
    yield "| method | test ROC-AUC | against plain, seed by seed | rates p, q at the end |"
    yield "|---|---|---|---|"
    for method, scores in of.items():
        if not scores:
            continue
        spread = f" ± {stdev(scores.values()):.1f}" if len(scores) > 1 else ""
        paired = [f"{scores[seed] - of['none'][seed]:+.1f}" for seed in sorted(scores) if seed in of["none"]]
        last = [row for row in rows if row["method"] == method]
        rates = f"{mean(row['p'] for row in last):.2f}, {mean(row['q'] for row in last):.3f}"
        plain = method == "none"
        cells = [f"{mean(scores.values()):.1f}{spread}", "" if plain else ", ".join(paired), "–" if plain else rates]
        yield f"| {'plain' if plain else method.upper()} | " + " | ".join(cells) + " |"


def main() -> None:
    names = ("method", "seed", "molecules", "epochs")
    sizes = {"molecules": 3000, "epochs": 8, "seeds": 3}  # molecules to train on, of 32,901
    given, done = asked(__doc__, "molhiv.jsonl", names, table, methods=",".join(METHODS), **sizes)
    unknown = set(given.methods.split(",")) - set(METHODS)
    if unknown:
        raise SystemExit(f"error: methods are {', '.join(METHODS)}, got {', '.join(sorted(unknown))}")
    molecules = Molecules.read(rade.data.data_root() / FOLDER)
    for seed, method in product(range(given.seeds), given.methods.split(",")):
        if (method, seed, given.molecules, given.epochs) in done:
            continue
        line = run(molecules, method, seed, given.molecules, given.epochs)
        add(given.out, line)
        took = f"{line['seconds']:.0f} s"
        print(f"{method}, seed {seed}: test {line['test']:.3f}, epoch {line['epoch']}, {took}", flush=True)


if __name__ == "__main__":
    main()
