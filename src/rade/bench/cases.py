"""Data sets and backbones that epochs are measured on, with our goals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rade.bench.measure import Setting
from rade.data import Dataset, load


@dataclass(frozen=True)
class Case:
    """A data set and backbone with our goals: full RADE-OF over our plain epoch, and ours over PyG's plain epoch."""

    data: str
    backbone: str
    rade: float
    plain: float | None = None


CASES = (
    *(Case("cora", name, 2.0, 0.2 if name == "gcn" else None) for name in ("gcn", "gin")),
    *(Case("pubmed", name, 2.0, 0.05 if name == "gcn" else None) for name in ("gcn", "gin")),
    *(Case(data, "gcn", 2.0, 0.08) for data in ("cs", "computer", "physics")),
    *(Case(data, "gin", 2.0) for data in ("cs", "computer", "physics")),
    *(Case(data, "gat", 3.0) for data in ("cora", "computer")),
    *(Case(data, "gcn", 2.5, 0.7) for data in ("mutag", "proteins")),
)
TOY = (Case("csbm", "gcn", 2.0, 1.0),)


def cases(setting: Setting) -> Iterator[tuple[Case, Dataset]]:
    """Those that are asked for, with their data."""
    for case in TOY if setting.quick else CASES:
        if not setting.only or case.data in setting.only:
            yield case, load(case.data, root=setting.data_root)
