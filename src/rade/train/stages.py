"""A data set as settings want it: corrupted edges, fewer labels, known noise, and the problem that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rade import Graph, Rates, Trust, sample_view
from rade.data import Dataset, GraphList, Split
from rade.errors import SettingsError, choose
from rade.noise import FeatureEvidence, share_of
from rade.train.tasks import LOSSES, METRICS, Problem, Task, generator

if TYPE_CHECKING:
    from rade.train.settings import Settings

LABELS = 6  # a stream of a run's seed, apart from those of batches and views
FEATURES = "features"  # by whose similarity edges are trusted
TRUST = "trust in single edges"


@dataclass(frozen=True)
class Corruption:
    """``drop`` of all edges are lost, and ``add`` times as many spurious ones appear between random nodes."""

    drop: float = 0.0
    add: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.drop < 1.0:
            raise SettingsError(f"the share of dropped edges must lie in [0, 1), got {self.drop:g}")
        if not 0.0 <= self.add <= 1000.0:
            raise SettingsError(f"spurious edges over real ones must lie in [0, 1000], got {self.add:g}")
        if self.seed < 0:
            raise SettingsError(f"the seed of a corruption must be at least 0, got {self.seed}")

    @staticmethod
    def parse(text: str) -> Corruption:
        """`DROP,ADD` or `DROP,ADD,SEED`; nothing is corrupted by an empty one.

        >>> Corruption.parse("0.3,1")
        Corruption(drop=0.3, add=1.0, seed=0)
        """
        try:
            drop, add, *seeds = text.split(",") if text else ("0", "0")
            (seed,) = map(int, seeds or ("0",))
            asked = float(drop), float(add), seed
        except ValueError:
            raise SettingsError(f"a corruption is DROP,ADD or DROP,ADD,SEED, e.g. 0.3,1.0, got {text!r}") from None
        return Corruption(*asked)

    def told(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a data set's origin with this corruption among them, if it changes anything."""
        return {**options, "corrupted": asdict(self)} if self.drop or self.add else dict(options)

    def of(self, graph: Graph) -> Graph:
        """The corrupted graph; graphs of a batch stay apart."""
        rates = Rates(self.drop, min(self.add * graph.num_edges / max(graph.num_nonedges, 1), 1.0))
        view = sample_view(graph, rates, torch.Generator(graph.device).manual_seed(self.seed))
        return Graph.from_edge_index(view.edge_index, graph.num_nodes, graph.batch)

    def of_dataset(self, dataset: Dataset) -> Dataset:
        """The same data set with its graph corrupted."""
        if not (self.drop or self.add):
            return dataset
        require_one_graph(dataset, "a corruption")
        provenance, data = dataset.provenance, dataset.graphs[0].clone()
        clean = Graph.from_edge_index(data.edge_index, data.num_nodes, data.get("batch"))
        data.edge_index = self.of(clean).edge_index
        provenance = replace(provenance, options=self.told(provenance.options))
        density = min(dataset.density * (1.0 - self.drop + self.add), 1.0)
        return replace(dataset, graphs=(data,), provenance=provenance, density=density)


def require_one_graph(dataset: Dataset, what: str) -> None:
    """Refuse a data set of many graphs."""
    if dataset.level != "node" or len(dataset.graphs) != 1:
        raise SettingsError(f"{what} needs a data set of one graph, not {dataset.name}")


def corrupted(dataset: Dataset, settings: Settings) -> Dataset:
    """The data set with what the settings do to its graphs."""
    return Corruption.parse(settings.corrupt).of_dataset(dataset)


def parse_noise(text: str) -> dict[str, Any]:
    """`P,Q` or `P,Q,features` as settings.

    >>> parse_noise("0.1,0.001")
    {'noise_p': 0.1, 'noise_q': 0.001}
    >>> parse_noise("0,0.001,features")
    {'noise_p': 0.0, 'noise_q': 0.001, 'noise_trust': 'features'}
    """
    numbers, similarity = text.split(",")[:2], text.split(",")[2:]
    try:
        p, q = map(float, numbers)
        Rates(p, q)
        choose("trust", similarity, ([], [FEATURES]))
    except ValueError:
        raise SettingsError(
            "noise is P,Q, the rates of missing and of spurious edges, e.g. 0.1,0.001, and by what edges are "
            f"trusted if you like, 0.1,0.001,{FEATURES}; rade predict RUN --noise auto estimates it; got {text!r}"
        ) from None
    return {"noise_p": p, "noise_q": q, **({"noise_trust": FEATURES} if similarity else {})}


def check_noise(dataset: Dataset, settings: Settings) -> None:
    """Refuse noise that leaves nothing of the graph, and trust in edges where there is no one graph to have it in."""
    p, q = (float(settings.options.get(name, 0.0)) for name in ("noise_p", "noise_q"))
    if settings.options.get("noise_trust"):
        require_one_graph(dataset, TRUST)
    if p == 0.0 and q == 0.0:
        return
    require_whole_graph(dataset, settings)
    if p + q >= 1.0 or q >= dataset.density:
        raise SettingsError(
            f"noise of p = {p:g} and q = {q:g} leaves no real edge: p + q must be smaller than 1, and q smaller than "
            f"the density of {dataset.name}, {dataset.density:.3g}"
        )


def require_whole_graph(dataset: Dataset, settings: Settings) -> None:
    """Sampled neighborhoods have edges of a few nodes and none of their other pairs: rates of pairs mean nothing."""
    if dataset.level == "node" and settings.batch_size > 0:
        raise SettingsError("noise is undone on the whole graph: leave batch_size at 0")


def trust_in(dataset: Dataset, noise: Rates) -> Trust:
    """How far each edge is trusted where noise has these rates; the same for the same graph."""
    require_one_graph(dataset, TRUST)
    graph = Graph.from_edge_index(dataset.graphs[0].edge_index, dataset.graphs[0].num_nodes)
    return FeatureEvidence.of(graph, dataset.graphs[0].x).trust(share_of(graph, noise))


def problem_of(dataset: Dataset, settings: Settings) -> Problem:
    """A data set as the problem of a run: its own splits or folds, with the labels that the settings choose."""
    if (settings.pool == "none") != (dataset.level == "node"):
        needed = "none" if dataset.level == "node" else "sum or mean"
        raise SettingsError(
            f"{dataset.name} is a data set of {dataset.level}s: pool must be {needed}, got {settings.pool!r}"
        )
    check_noise(dataset, settings)
    if settings.test_corrupt:
        require_one_graph(dataset, "a corrupted test")
    if settings.test_corrupt and settings.options.get("noise_trust"):
        raise SettingsError("noise_trust is of one graph, and test_corrupt tests on another: leave one of them out")
    if dataset.level == "node" and settings.batch_size > 0 and len(settings.fanouts) != settings.layers:
        raise SettingsError(
            f"{settings.layers} layers need as many fan-outs, got {list(settings.fanouts)}; set --fanouts"
        )
    return Problem(
        dataset.name,
        dataset.level,
        dataset.graphs,
        labels_of(dataset),
        partial(split_for, dataset, settings),
        Task(dataset.loss, LOSSES[dataset.loss], METRICS[dataset.metric]),
        dataset.metric,
        dataset.density,
        dataset.origin,
        dataset.folds,
    )


def labels_of(dataset: Dataset) -> Tensor:
    """Of all nodes, or of all graphs."""
    if not isinstance(dataset.graphs, GraphList):
        labels: Tensor = dataset.graphs[0].y
        return labels
    labels = dataset.graphs.tables.y
    return labels if labels.is_floating_point() else labels.long()


def split_for(dataset: Dataset, settings: Settings, run: int) -> Split:
    """The split or fold of one run, with the labels that its settings choose; its parts are not empty.

    Labels are drawn from the run's seed, so methods that are compared see the same.
    """
    if 0 < dataset.folds <= run:
        raise SettingsError(f"data set {dataset.name} has {dataset.folds} folds; ask for at most as many runs")
    split = relabelled(dataset, dataset.split(run, settings.seed), settings, settings.seed + run)
    for name, items in {"train": split.train, "validation": split.val, "test": split.test}.items():
        if len(items) == 0:
            raise SettingsError(
                f"data set {dataset.name} has no {name} part in this split; training needs train, validation and test"
            )
    return split


def relabelled(dataset: Dataset, split: Split, settings: Settings, seed: int) -> Split:
    """With `labels_per_class` or `train_items` of the training part, or `train_share` of all, as the settings say.

    The rest of all is half for validation and half for test. A larger number with the same seed keeps the items.
    """
    each, count, share = settings.labels_per_class, settings.train_items, settings.train_share
    pool = torch.cat([split.train, split.val, split.test]) if share else split.train
    places = torch.randperm(len(pool), generator=generator(seed, LABELS))
    if each:
        if dataset.loss != "multiclass":
            raise SettingsError(f"labels_per_class needs classes, which {dataset.name} lacks; train_items takes any")
        labels = labels_of(dataset).view(-1)[pool][places]
        classes, counts = torch.unique(labels, return_counts=True)
        if each > int(counts.min()):
            raise SettingsError(
                f"labels_per_class must be at most {int(counts.min())} on {dataset.name}, whose class "
                f"{int(classes[counts.argmin()])} has no more labels for training, got {each}"
            )
        kept = torch.cat([places[labels == label][:each] for label in classes])
        return replace(split, train=pool[kept.sort().values])
    if count:
        if count > len(pool):
            raise SettingsError(f"train_items must be at most {len(pool)} on {dataset.name}, got {count}")
        return replace(split, train=pool[places[:count]].sort().values)
    if share:
        if dataset.folds:
            raise SettingsError(f"{dataset.name} is split into folds; train_share is for data sets with one split")
        train = int(share * len(pool))
        parts = pool[places].tensor_split((train, train + (len(pool) - train) // 2))
        return Split(*(part.sort().values for part in parts))
    return split
