"""What is diagnosed: a model on a graph, from a finished run or quickly trained on a data set."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from rade.control.rules import Constant
from rade.data import Dataset
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.train.backbones import Backbone
from rade.train.errors import RunError
from rade.train.model import Shape, Trained, build_learner
from rade.train.run import load_run, train_run
from rade.train.settings import Settings
from rade.view.law import Law, Variant
from rade.view.rates import Rates
from rade.view.view import MeanView
from rade.wrapper.module import RADE

GRAPHS = 128  # of a data set of graphs, so many are looked at
VARIANTS = {"rade-of": Variant.OF, "rade-ofs": Variant.OFS}


@dataclass(frozen=True, eq=False)
class Subject:
    """A model in evaluation mode and double precision, its features and graph, and the law of views."""

    dataset: str
    model: str  # in words
    net: Backbone
    x: Tensor
    graph: Graph
    law_on: Callable[[Graph], Law]
    loss: str
    notes: tuple[str, ...] = ()

    def operators(self, graph: Graph) -> dict[str, Adjacency]:
        """What the clean model, RADE-OF and RADE-OFS aggregate over at inference."""
        law = self.law_on(graph)
        views = {name: MeanView(replace(law, variant=variant)) for name, variant in VARIANTS.items()}
        return {"clean": graph, **views}

    def logits(self, adjacency: Adjacency) -> Tensor:
        """The model's outputs over an adjacency."""
        found: Tensor = self.net(self.x, adjacency, batch=adjacency.graph.batch)
        return found


@dataclass(frozen=True)
class RatesAsked:
    """Rates of views for a model that has none of its own: p, and q as a multiple of the density."""

    p: float = 0.5
    rho: float = 0.5

    def __post_init__(self) -> None:
        Constant(self.p, self.rho)  # checks both


EVEN = RatesAsked()  # as many additions as drops


def of_run(folder: Path, dataset: Dataset, rates: RatesAsked = EVEN, seed: int = 0) -> Subject:
    """The model of a finished run, at the rates that it ended with; one trained without RADE at those asked for."""
    trained = load_run(folder)
    settings = trained.settings
    words = f"{settings.backbone}, {settings.method}, {settings.layers} layers, from {folder}"
    return _subject(trained, dataset, words, rates, seed)


def of_dataset(dataset: Dataset, settings: Settings, rates: RatesAsked = EVEN, seed: int = 0) -> Subject:
    """A model of these settings, trained now."""
    with TemporaryDirectory() as folder:
        train_run(dataset, settings, 0, Path(folder))
        trained = load_run(folder)
    words = f"{settings.backbone}, {settings.method}, {settings.layers} layers, trained for {settings.epochs} epochs"
    return _subject(trained, dataset, words, rates, seed)


def untrained(dataset: Dataset, settings: Settings, rates: RatesAsked = EVEN, seed: int = 0) -> Subject:
    """A model of these settings with its first parameters."""
    shape = Shape.of(dataset)
    trained = Trained(settings, shape, settings.seed, build_learner(settings, shape, settings.seed).eval())
    words = f"{settings.backbone}, {settings.method}, {settings.layers} layers, not trained"
    return _subject(trained, dataset, words, rates, seed)


def _subject(trained: Trained, dataset: Dataset, words: str, rates: RatesAsked, seed: int) -> Subject:
    x, graph, notes = _sampled(dataset, seed)
    there, here = Shape.of(dataset), trained.shape
    if (there.level, there.features, there.outputs) != (here.level, here.features, here.outputs):
        raise RunError(
            f"the model was trained on {trained.settings.dataset} ({here.level} level, {here.features} features, "
            f"{here.outputs} outputs) and cannot be used on {dataset.name} ({there.level} level, {there.features} "
            f"features, {there.outputs} outputs)"
        )
    model = trained.learner.net
    base = model.wrapped if isinstance(model, RADE) else model
    if not isinstance(base, Backbone):
        raise RunError(f"{trained.settings.method} changes the backbone itself; diagnose a run of another method")
    net = deepcopy(base).double().eval()
    return Subject(dataset.name, words, net, _double(x), graph, _law(model, graph, rates), dataset.loss, notes)


def _law(model: nn.Module, graph: Graph, asked: RatesAsked) -> Callable[[Graph], Law]:
    """The views that the model was trained with; else those of the rates asked for."""
    if isinstance(model, RADE) and model.variant is not Variant.NONE:
        return lambda other: model.law(other, model.controller.rates_for(other))
    rates = Rates(asked.p, min(asked.rho * graph.density, 1.0))
    return lambda other: Law(other, rates)


def _sampled(dataset: Dataset, seed: int) -> tuple[Tensor, Graph, tuple[str, ...]]:
    """Features and graph; of many graphs some."""
    if dataset.level == "node":
        data: Any = dataset.graphs[0]
        return data.x, Graph.from_edge_index(data.edge_index, data.num_nodes, data.batch), ()
    count = len(dataset.graphs)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:GRAPHS].sort().values
    data = cast(Any, dataset.graphs).batch(order)
    notes = (f"{len(order)} of {count:,} graphs, drawn at random",) if len(order) < count else ()
    return data.x, Graph.from_edge_index(data.edge_index, data.num_nodes, data.batch, data.ptr), notes


def _double(x: Tensor) -> Tensor:
    """Features in double precision; categories stay whole numbers."""
    return x.double() if x.is_floating_point() else x
