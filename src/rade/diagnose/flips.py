"""How often a prediction changes when edges are lost or appear."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.train.stages import Corruption

LEVELS = (0.1, 0.3, 0.6)
KINDS: dict[str, Callable[[float], Corruption]] = {
    "drop": lambda level: Corruption(drop=level),
    "add": lambda level: Corruption(add=level),
    "both": lambda level: Corruption(drop=level, add=level),
}
Predict = Callable[[Graph], Tensor]


def decisions(logits: Tensor, loss: str) -> Tensor:
    """The class of every row, [k], or, where labels are yes or no, each of them, [k, C]."""
    return logits.argmax(1) if loss == "multiclass" else logits > 0


def flips(
    predict: Predict, graph: Graph, loss: str, draws: int, seed: int, levels: Sequence[float] = LEVELS
) -> dict[str, dict[str, float]]:
    """The share of predictions that differ from those on the graph itself, by kind and share of noise.

    The noise of a level is the same for every way to predict: a share of the edges lost, as many spurious, or both.
    """
    with torch.no_grad():
        before = decisions(predict(graph), loss)
        return {
            kind: {f"{level:g}": _changed(predict, make(level), graph, before, loss, draws, seed) for level in levels}
            for kind, make in KINDS.items()
        }


def _changed(
    predict: Predict, noise: Corruption, graph: Graph, before: Tensor, loss: str, draws: int, seed: int
) -> float:
    changed = 0.0
    for draw in range(draws):
        noisy = Corruption(noise.drop, noise.add, seed + draw).of(graph)
        changed += float((decisions(predict(noisy), loss) != before).double().mean())
    return changed / draws
