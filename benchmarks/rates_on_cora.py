"""How p and ρ move on Cora: RADE-OF and RADE-OFS with a two-layer GCN of width 512, as a table.

    rade datasets import MIRROR cora          # or let PyG download it
    python -m benchmarks.rates_on_cora

Writes results/studies/rates-on-cora/rates_on_cora.csv.gz, one row per variant, seed and epoch.
"""

import argparse
import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from benchmarks.study import fit
from torch.nn.functional import cross_entropy

import rade
from rade.train.backbones import build_backbone

COLUMNS = ("variant", "seed", "epoch", "p", "rho", "norm_ratio", "loss", "val", "test")
NAMES = {"of": "RADE-OF", "ofs": "RADE-OFS"}


@dataclass(frozen=True)
class Recorded(rade.GradNorm):
    """The paper's rule, which also writes down G_reg/G_data of every step."""

    ratios: list[float] = field(default_factory=list)

    def objective(self, state: Any, density: Any, seen: Any) -> Any:
        found = super().objective(state, density, seen)
        norm, _ = seen.regulariser.norm(rade.Rates(state["p"], state["rho"] * density))
        self.ratios.append(float(norm / seen.data_norm))
        return found


def trajectory(variant: str, seed: int, epochs: int, root: Path | None) -> list[dict[str, Any]]:
    """One training run; the rates and what moves them, epoch by epoch."""
    dataset = rade.data.load("cora", root=root)
    data, split = dataset.graphs[0], dataset.split(run=0)
    graph = rade.Graph.from_edge_index(data.edge_index, data.num_nodes)
    torch.manual_seed(seed)
    net = build_backbone("gcn", dataset.features, 512, dataset.classes)
    rule = Recorded()
    model = rade.RADE(net, variant, rule=rule, views=rade.Views(shared=True), density=dataset.density)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rows, seen = [], []

    def losses() -> Iterator[torch.Tensor]:
        loss = cross_entropy(model(data.x, graph)[split.train], data.y[split.train])
        seen.append(float(loss.detach()))
        yield loss
        model.adapt(data.x, graph, labelled=split.train)

    for epoch in fit(model, optimizer, losses, epochs):
        with torch.no_grad():
            right = (model(data.x, graph).argmax(1) == data.y).float()
        values = [float(model.rates.p), model.rate_state.rho_now, rule.ratios[-1], seen[-1]]
        values += [float(right[part].mean()) for part in (split.val, split.test)]
        rows.append(dict(zip(COLUMNS, (variant, seed, epoch + 1, *(round(value, 5) for value in values)))))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/studies/rates-on-cora"))
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for variant in NAMES:
        for seed in range(options.seeds):
            rows += trajectory(variant, seed, options.epochs, options.data_root)
            last = rows[-1]
            best = max(rows[-options.epochs :], key=lambda row: row["val"])
            rates = f"p {last['p']}, ρ {last['rho']}"
            print(f"{NAMES[variant]} seed {seed}: {rates}, test at best validation {best['test']:.1%}")
    options.out.mkdir(parents=True, exist_ok=True)
    with gzip.open(options.out / "rates_on_cora.csv.gz", "wt", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
