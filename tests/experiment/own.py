"""A table of one's own, whole and with one thing wrong."""

from __future__ import annotations

from pathlib import Path

GOOD = """
title = "Mine"
seeds = 3
backbones = ["gcn", "gin"]
datasets = ["cora", "pubmed"]

[[rows]]
name = "Plain"
method = "none"
settings = { layers = 3, hidden = { cora = 16 } }
published.gcn.cora = [81, 0.5]

[[rows]]
name = "Linear"
method = "rade-of-fixed"
backbones = ["sgc"]
search = { p = [0.1, 0.2], rho = [0.5, 1.0] }
"""


def written(folder: Path, text: str = GOOD, old: str = "", new: str = "") -> Path:
    assert old in text
    path = folder / "mine.toml"
    path.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    return path
