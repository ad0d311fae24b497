"""What RADE does for models as others built and tuned them, and pairs of views against moments: `rade.compare`, stored.

    python -m benchmarks.compare_models --seeds 10 sage-cora gcnii-cora gatv2-cora     # all cases without names
    python -m benchmarks.compare_models --table

Models that have dropout and normalisation already, with the sizes and the training of PyG's examples: GraphSAGE
(ogbn-products: three layers of 256, batch norm, dropout 0.5, lr 0.003), GCNII (16 of the 64 layers of gcn2_cora, for
time; alpha 0.1, theta 0.5, dropout 0.6, lr 0.01) and GATv2 (gat: 8 heads of 8, dropout 0.6, lr 0.005, residuals).
They were tuned on homophilous graphs; Squirrel is none, and nothing was tuned for it here.
Then moments against pairs of views (GCN, GAT), pairs where there are no moments (SAGE with max, PNA), and HeteroConv on
a synthetic graph of papers and authors. All sizes were fixed before any score was seen.

Finished runs are kept in a store and not repeated; the summary of every run is written to a CSV file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas
import torch
import torch.nn.functional as F
from benchmarks.study import of_class, origin
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GCN2Conv, GraphSAGE, HeteroConv, PNAConv, SAGEConv
from torch_geometric.utils import degree

import rade
from rade.statistics import paired, spread

Net = Callable[[], nn.Module]
Methods = Mapping[str, str | Callable[[nn.Module], nn.Module]]
PLAIN: Methods = {"none": "none", "drop-edge": "drop-edge", "rade": "rade"}
WITH_OFS: Methods = {**PLAIN, "rade ofs": lambda net: rade.RADE(net, "ofs")}


def by_pairs(net: nn.Module) -> nn.Module:
    return rade.RADE(net, correction=rade.Correction(by="pairs"))


BOTH_WAYS: Methods = {**PLAIN, "rade by pairs": by_pairs}


class GCNII(nn.Module):
    """Initial residuals and identity maps between two linear layers."""

    def __init__(self, inputs: int, outputs: int, width: int = 64, layers: int = 16) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(inputs, width), nn.Linear(width, outputs)
        self.layers = nn.ModuleList([GCN2Conv(width, alpha=0.1, theta=0.5, layer=k + 1) for k in range(layers)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = first = self.encoder(F.dropout(x, 0.6, self.training)).relu()
        for layer in self.layers:
            x = layer(F.dropout(x, 0.6, self.training), first, edge_index).relu()
        return self.head(F.dropout(x, 0.6, self.training))


class PNA(nn.Module):
    """Two layers with four aggregators and three scalers."""

    def __init__(self, inputs: int, outputs: int, degrees: Tensor, width: int = 32) -> None:
        super().__init__()
        chosen = (["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"], degrees)
        self.encoder = nn.Linear(inputs, width)
        self.layers = nn.ModuleList([PNAConv(width, width, *chosen), PNAConv(width, outputs, *chosen)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(self.encoder(x).relu(), 0.5, self.training)
        x = F.dropout(self.layers[0](x, edge_index).relu(), 0.5, self.training)
        return self.layers[1](x, edge_index)


PAPERS, AUTHORS, CLASSES, FEATURES = 2_000, 1_000, 4, 32


def papers_and_authors() -> tuple[Data, Tensor, dict[tuple[str, str, str], Tensor]]:
    """Papers with features, classes and masks; authors' features; three relations.

    A paper cites three others, of its own class with probability 0.6, and has three authors, who write papers of their
    own class with probability 0.7. Features are weak: classes half a unit apart in noise of two.
    """
    generator = torch.Generator().manual_seed(0)
    y, field = (torch.randint(CLASSES, (count,), generator=generator) for count in (PAPERS, AUTHORS))

    def ends(classes: Tensor, same: float) -> tuple[Tensor, Tensor]:
        papers = torch.arange(PAPERS).repeat_interleave(3)
        alike = torch.rand(len(papers), generator=generator) < same
        wanted = torch.where(alike, y[papers], torch.randint(CLASSES, papers.shape, generator=generator))
        return papers, of_class(classes, wanted, generator)

    citing, cited = ends(y, 0.6)
    written, writer = ends(field, 0.7)
    centres = 0.5 * torch.randn(CLASSES, FEATURES, generator=generator)
    x, own = (centres[kind] + 2 * torch.randn(len(kind), FEATURES, generator=generator) for kind in (y, field))
    part = torch.rand(PAPERS, generator=generator)
    masks = {"train_mask": part < 0.1, "val_mask": (part >= 0.1) & (part < 0.2), "test_mask": part >= 0.2}
    relations = {
        ("paper", "cites", "paper"): torch.stack([citing, cited]).unique(dim=1),
        ("author", "writes", "paper"): torch.stack([writer, written]).unique(dim=1),
        ("paper", "rev_writes", "author"): torch.stack([written, writer]).unique(dim=1),
    }
    return Data(x=x, edge_index=relations["paper", "cites", "paper"], y=y, **masks), own, relations


class Papers(nn.Module):
    """Two `HeteroConv` layers; the relations are the model's own, the papers' features come from outside."""

    def __init__(self, authors: Tensor, relations: dict[tuple[str, str, str], Tensor], width: int = 64) -> None:
        super().__init__()
        self.authors, self.relations = authors, relations
        self.head = nn.Linear(width, CLASSES)
        self.layers = nn.ModuleList(
            HeteroConv({name: SAGEConv((inputs, inputs), width) for name in relations}) for inputs in (FEATURES, width)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        nodes = {"paper": x, "author": self.authors}
        for layer in self.layers:
            nodes = layer(nodes, self.relations)
            nodes = {kind: F.dropout(value.relu(), 0.5, self.training) for kind, value in nodes.items()}
        return self.head(nodes["paper"])


@dataclass(frozen=True)
class Case:
    """A model on a data set, the methods that are compared, and how all of them are trained."""

    dataset: str
    make_net: Callable[[Data, int], Net]
    methods: Methods
    training: rade.Training


def _sage(data: Data, classes: int) -> Net:
    return lambda: GraphSAGE(data.x.shape[1], 256, 3, classes, dropout=0.5, norm="batch_norm")


def _gcnii(data: Data, classes: int) -> Net:
    return lambda: GCNII(data.x.shape[1], classes)


def _gatv2(data: Data, classes: int) -> Net:
    return lambda: GAT(data.x.shape[1], 64, 2, classes, dropout=0.6, v2=True, heads=8, residual=True)


def _gcn(data: Data, classes: int) -> Net:
    return lambda: GCN(data.x.shape[1], 64, 2, classes, dropout=0.5)


def _gat(data: Data, classes: int) -> Net:
    return lambda: GAT(data.x.shape[1], 64, 2, classes, dropout=0.5, heads=4)


def _sage_max(data: Data, classes: int) -> Net:
    return lambda: GraphSAGE(data.x.shape[1], 64, 2, classes, dropout=0.5, aggr="max")


def _pna(data: Data, classes: int) -> Net:
    counts = degree(data.edge_index[1], data.num_nodes).long().bincount()
    return lambda: PNA(data.x.shape[1], classes, counts)


def _papers(data: Data, classes: int) -> Net:
    _, authors, relations = papers_and_authors()
    return lambda: Papers(authors, relations)


SAGE_TRAINING = rade.Training(lr=0.003, weight_decay=0.0)
USUAL = rade.Training()
CASES = {
    **{f"sage-{name}": Case(name, _sage, WITH_OFS, SAGE_TRAINING) for name in ("cora", "squirrel-filtered")},
    **{f"gcnii-{name}": Case(name, _gcnii, PLAIN, USUAL) for name in ("cora", "squirrel-filtered")},
    **{f"gatv2-{name}": Case(name, _gatv2, PLAIN, rade.Training(lr=0.005)) for name in ("cora", "squirrel-filtered")},
    **{f"max-{name}": Case(name, _sage_max, PLAIN, USUAL) for name in ("cora", "squirrel-filtered")},
    **{f"pna-{name}": Case(name, _pna, PLAIN, USUAL) for name in ("cora", "squirrel-filtered")},
    "papers": Case("papers and authors", _papers, PLAIN, USUAL),
    **{f"gcn-{name}": Case(name, _gcn, BOTH_WAYS, USUAL) for name in ("cora", "squirrel-filtered", "computer")},
    **{f"gat-{name}": Case(name, _gat, BOTH_WAYS, USUAL) for name in ("cora", "squirrel-filtered", "computer")},
}


def compared(case: Case, seeds: int, workers: int, store: Path) -> pandas.DataFrame:
    """One line per run."""
    if case.dataset == "papers and authors":
        data, classes = papers_and_authors()[0], CLASSES
        given: object = data
    else:
        given = rade.data.load(case.dataset)
        data, classes = given.graphs[0], given.classes
    net = case.make_net(data, classes)
    found = rade.compare(
        net, given, case.methods, seeds, training=case.training, workers=workers, store=store, progress=print
    )
    print(found, flush=True)
    return pandas.DataFrame(found.asdict()["runs"])


def table(path: Path) -> None:
    """Paired differences to the plain model in points, with 95 % intervals, as Markdown."""
    rows = pandas.read_csv(path)
    names = [name for name in dict.fromkeys(rows.method) if name != "none"]
    print(f"| case | seeds | plain | {' | '.join(names)} |")
    print("|" + "---|" * (3 + len(names)))
    for case, part in rows.groupby("case", sort=False):
        scores = part.pivot(index="seed", columns="method", values="test") * 100
        cells = [str(paired((scores[n] - scores["none"]).dropna().tolist())) if n in scores else "" for n in names]
        print(f"| {case} | {len(scores)} | {spread(scores['none'].tolist()).mean:.1f} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="by default all: " + ", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("compare_models.sqlite"))
    parser.add_argument("--out", type=Path, default=Path("compare_models.csv"))
    parser.add_argument("--table", action="store_true", help="print the table of --out and stop")
    options = parser.parse_args()
    if options.table:
        table(options.out)
        return
    for name in options.cases or CASES:
        rows = compared(CASES[name], options.seeds, options.workers, options.store)
        versions = origin()
        rows = rows.assign(case=name, commit=versions["commit"], **versions["versions"])
        if options.out.exists():
            known = pandas.read_csv(options.out)
            rows = pandas.concat([known[known.case != name], rows])
        rows.to_csv(options.out, index=False)


if __name__ == "__main__":
    main()
