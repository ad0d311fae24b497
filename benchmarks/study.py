"""What the studies share: random graphs, one way to train, and lines of results, kept with what made them."""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TextIO, cast

import torch
import torch_geometric
from torch import Tensor, nn
from torch_geometric.utils import to_undirected

import rade


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_edges(nodes: int, count: int, seed: int = 0) -> Tensor:
    """At most ``count`` random edges, in both directions."""
    pairs = torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(seed))
    return to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=nodes)


def of_class(classes: Tensor, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """For each wanted class a random node of it."""
    order, sizes = classes.argsort(stable=True), classes.bincount(minlength=int(wanted.max()) + 1)
    place = (torch.rand(len(wanted), generator=generator) * sizes[wanted]).long()
    return order[sizes.cumsum(0)[wanted] - sizes[wanted] + place]


def distinct(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of two different nodes, each once: the lower and the higher node, sorted by both."""
    pairs = torch.stack([torch.minimum(one, other), torch.maximum(one, other)])[:, one != other]
    low, high = torch.unique(pairs, dim=1)
    return low, high


def fit(
    model: nn.Module, optimizer: torch.optim.Optimizer, losses: Callable[[], Iterable[Tensor]], epochs: int
) -> Iterator[int]:
    """Train for some epochs, one step for each loss; after every epoch its number, the model in evaluation mode."""
    for epoch in range(epochs):
        model.train()
        for loss in losses():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        yield epoch


def opened(path: Path, mode: str) -> TextIO:
    """A file of text, which its name may say is compressed."""
    compressed = path.suffix == ".gz"
    return cast(TextIO, gzip.open(path, mode, encoding="utf-8") if compressed else path.open(mode, encoding="utf-8"))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that may not exist."""
    if path.exists():
        with opened(path, "rt") as file:
            yield from map(json.loads, file)


def add(path: Path, line: dict[str, Any]) -> None:
    """One more line, with commit and versions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path, "at") as file:
        file.write(json.dumps(line | origin()) + "\n")


def asked(
    doc: str | None,
    out: str,
    names: tuple[str, ...],
    table: Callable[[Iterable[dict[str, Any]]], Iterable[str]] | None = None,
    **defaults: Any,
) -> tuple[argparse.Namespace, set[tuple[Any, ...]]]:
    """The options of a study, by their defaults, and which of its lines are in the file already, by some names.

    ``--out`` is that file. ``--table`` prints the table of a file, and that is all.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"out": Path(out), **defaults}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help="default: %(default)s")
    if table is not None:
        parser.add_argument("--table", type=Path, help="print the table of a file")
    options = parser.parse_args()
    if table is not None and options.table is not None:
        print("\n".join(table(lines(options.table))))
        raise SystemExit(0)
    torch.set_num_threads(1)
    return options, {tuple(row[name] for name in names) for row in lines(options.out)}


@cache
def origin() -> dict[str, Any]:
    """What made a line: asked once, for the code of a process stays what it was when the repository moves on."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    versions = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__, "rade": rade.__version__}
    return {"commit": commit, "versions": versions}
