"""Stored rows of corrupted graphs, and differences between them: paired by seed, with standard errors."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

Row = dict[str, Any]
BySeed = dict[int, Row]
KEY = ("dataset", "backbone", "method", "trained")
ORDER = {
    "dataset": ("cora", "citeseer", "pubmed", "cs", "physics", "computer"),
    "backbone": ("gcn", "sage", "gin", "gat"),
    "method": ("none", "dropout", "drop-edge", "rade-of", "rade-ofs"),
    "trained": ("clean", "noisy"),
    "corruption": ("clean", "add10", "add30", "add100", "add200", "drop30", "drop60", "mix50"),
}


def read(path: Path) -> list[Row]:
    """The lines of a file; older ones do not say that they were trained on the clean graph."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [{"trained": "clean", **json.loads(line)} for line in content.splitlines()]


def key_of(row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in KEY), row["corruption"], row["seed"])


def rank(name: str, value: str) -> tuple[int, str]:
    """Known words in their order, others behind by name."""
    words = ORDER[name]
    return (words.index(value) if value in words else len(words), value)


@dataclass(frozen=True)
class Store:
    """Rows by (data set, backbone, method, trained on), then by corruption, then by seed."""

    cells: dict[tuple[str, ...], dict[str, BySeed]]

    @staticmethod
    def of(rows: list[Row]) -> "Store":
        """Several rows of one model and graph add up, if they agree in plain prediction; else the last counts."""
        latest: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            known = latest.get(key_of(row))
            same = known is not None and known["scores"]["plain"] == row["scores"]["plain"]
            latest[key_of(row)] = {**row, "scores": {**known["scores"], **row["scores"]}} if same and known else row
        found: dict[tuple[str, ...], dict[str, BySeed]] = defaultdict(lambda: defaultdict(dict))
        for row in latest.values():
            found[tuple(row[name] for name in KEY)][row["corruption"]][row["seed"]] = row
        order = sorted(found, key=lambda key: [rank(name, value) for name, value in zip(KEY, key)])
        return Store({key: dict(sorted(found[key].items(), key=lambda c: rank("corruption", c[0]))) for key in order})

    def rows(self, key: tuple[str, ...], corruption: str) -> BySeed:
        return self.cells.get(key, {}).get(corruption, {})

    def ways(self, key: tuple[str, ...]) -> set[str]:
        return {way for rows in self.cells[key].values() for row in rows.values() for way in row["scores"]}


def accuracy(rows: BySeed, way: str = "plain") -> dict[int, float]:
    """By seed, where the way was tried."""
    return {seed: row["scores"][way]["accuracy"] for seed, row in rows.items() if way in row["scores"]}


def minus(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    """Paired differences."""
    return {seed: one[seed] - other[seed] for seed in one if seed in other}


def gains(store: Store, key: tuple[str, ...], corruption: str, way: str) -> dict[int, float]:
    """Of a way over plain prediction, less the same on the clean graph (whose own row has the gain itself)."""
    rows = store.rows(key, corruption)
    found = minus(accuracy(rows, way), accuracy(rows))
    if corruption == "clean" or key[-1] == "noisy":
        return found
    clean = store.rows(key, "clean")
    return minus(found, minus(accuracy(clean, way), accuracy(clean)))


def shown(values: dict[int, float], expected: int, sign: str = "+") -> str:
    """Mean ± standard error; with the number of seeds where it is not the expected one."""
    if not values:
        return ""
    error = f" ± {stdev(values.values()) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    number = "" if len(values) == expected else f" ({len(values)})"
    mean = fmean(values.values())
    return f"{mean:{sign}.1f}{error}{number}" if abs(mean) >= 0.05 or sign == "" else f"0.0{error}{number}"
