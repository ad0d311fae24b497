"""What an epoch would take by its sizes alone: good to a factor of three or so, for plans of what was never timed."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from rade.data.catalogue import resolve

# Seconds on one core: an edge's message per column, a node's product per pair of columns, a layer's calls in a step.
_EDGE, _NODE, _CALLS = 4e-9, 8e-11, 1.5e-3
# Epochs over plain ones with a GCN (docs/benchmarks.md).
_FAMILIES = {"baseline": 1.0, "fixed": 1.7, "rade": 3.0}
_BACKBONES = {"gat": 3.0, "gin": 1.3}


def family(method: str) -> str:
    """Methods whose epochs take about the same time: those without views, with views, and with rate steps, too.

    >>> family("drop-edge"), family("rade-of-fixed"), family("rade-ofs")
    ('baseline', 'fixed', 'rade')
    """
    if not method.startswith("rade-"):
        return "baseline"
    return "fixed" if method.endswith(("-fixed", "-uncorrected", "-expected")) else "rade"


def guess(settings: Mapping[str, Any]) -> float:
    """Seconds of an epoch of a run with these settings, evaluation included, on an ordinary core."""
    entry = resolve(settings["dataset"])
    hidden, layers, batch = (int(settings[name]) for name in ("hidden", "layers", "batch_size"))
    items = entry.graphs if entry.level == "graph" else entry.nodes
    steps = ceil(items / batch) if batch else 1
    sums = layers * hidden * (2 * entry.edges * _EDGE + entry.nodes * hidden * _NODE)
    slower = _FAMILIES[family(settings["method"])] * _BACKBONES.get(settings["backbone"], 1.0)
    return slower * (sums + steps * layers * _CALLS) * _share(settings.get("train_items", 0), items if batch else 0)


def _share(kept: int, items: int) -> float:
    """Of the work of an epoch over batches, if only `kept` items train: a step costs three times an evaluation, and
    seven of ten items train where all do."""
    return (3 * kept + 0.3 * items) / (3 * 0.7 * items + 0.3 * items) if kept and items else 1.0
