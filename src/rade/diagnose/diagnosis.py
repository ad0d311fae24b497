"""All measures of one model on one graph, for the clean operator, RADE-OF's and RADE-OFS's."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from rade.correction import Adjacency
from rade.data import Dataset
from rade.diagnose import measures
from rade.diagnose.measures import Network, Sample
from rade.distribution import Distribution, Rates, Variant, number
from rade.errors import RunError
from rade.graph.graph import Graph
from rade.moments import Coefficients, Normalised
from rade.nn.context import Context, Setting
from rade.nn.linear import dense
from rade.nn.trace import Trace
from rade.rates.variance import LogitMessages, variance, with_heads
from rade.sums import to_anybody
from rade.train.backbones import Backbone
from rade.train.model import Shape, Trained
from rade.train.stages import Corruption
from rade.wrapper.conversion import attach
from rade.wrapper.module import RADE

WIDEST = 2**28  # entries of dense features that derivatives may be taken in
GRAPHS = 128  # of a data set of graphs, so many are looked at
VARIANTS = {"rade-of": Variant.OF, "rade-ofs": Variant.OFS}
LEVELS = (0.1, 0.3, 0.6)  # of edge noise
KINDS = {"drop": (1, 0), "add": (0, 1), "both": (1, 1)}
ROUNDING = 1e-9  # two products that should be equal may differ by so much of their size

Diagnosis = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A model in evaluation mode and double precision, its features and graph, and the distribution of views."""

    dataset: str
    model: str  # in words
    net: Backbone
    x: Tensor
    graph: Graph
    views_of: Callable[[Graph], Distribution]
    loss: str
    notes: tuple[str, ...] = ()

    def operator(self, name: str, graph: Graph) -> Adjacency:
        """What the clean model, RADE-OF or RADE-OFS aggregates over at inference."""
        if name == "clean":
            return Adjacency(graph)
        return Adjacency(graph, replace(self.views_of(graph), variant=VARIANTS[name]))

    def decisions(self, name: str, graph: Graph) -> Tensor:
        """The class of every row, [k], or, where labels are yes or no, each of them, [k, C]."""
        adjacency = self.operator(name, graph)
        logits: Tensor = self.net(self.x, adjacency, batch=adjacency.graph.batch)
        return logits.argmax(1) if self.loss == "multiclass" else logits > 0

    @torch.no_grad()
    def coefficients(self, graph: Graph, nodes: Tensor) -> Coefficients:
        """Those of the first convolution, on a graph of these nodes."""
        inputs = self._inputs.index_select(0, nodes)
        return _traced(self.net, self.net.convolutions[0], inputs, graph).sums[0].coefficients

    @cached_property
    def _inputs(self) -> Tensor:
        with torch.no_grad():
            return dense(self.net.before(self.net.encoder(self.x)))

    @cached_property
    def symmetric(self) -> bool:
        """Whether the operator is symmetric: xᵀ W y = yᵀ W x for random x and y.

        Means and attention weigh by the target alone: what flows one way need not flow back, and no resistance exists.
        """
        found = self.coefficients(self.graph, torch.arange(self.graph.num_nodes))
        if found.clean().edges.dim() > 1:
            return False
        draws = torch.Generator().manual_seed(0)
        pair = torch.randn(self.graph.num_nodes, 2, dtype=found.dtype, generator=draws)
        products = pair.t() @ self.operator("rade-ofs", self.graph).sums(found).apply(pair)
        return bool((products[0, 1] - products[1, 0]).abs() <= ROUNDING * pair.norm(dim=0).prod())

    @torch.no_grad()
    def network(self, name: str, graph: Graph, nodes: Tensor) -> Network:
        """An operator on a graph of these nodes as conductors; where it is not symmetric, sums over the same graph."""
        found = self.coefficients(graph, nodes)
        kept = found if self.symmetric else Normalised.sum(graph, found.dtype)
        return Network.of(self.operator(name, graph), kept)


def subject_of(
    trained: Trained, dataset: Dataset, words: str, p: float = 0.5, rho: float = 0.5, seed: int = 0
) -> Subject:
    """A trained model on a data set, at the rates that it ended with; one trained without RADE at p and rho."""
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
    data: Any = dataset.graphs[0]
    notes: tuple[str, ...] = ()
    if dataset.level == "graph":
        count = len(dataset.graphs)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:GRAPHS].sort().values
        data = cast(Any, dataset.graphs).batch(order)
        notes = (f"{len(order)} of {count:,} graphs, drawn at random",) if len(order) < count else ()
    graph = Graph.from_edge_index(data.edge_index, data.num_nodes, data.batch, data.get("ptr"))
    x = data.x.double() if data.x.is_floating_point() else data.x
    net = deepcopy(base).double().eval()
    attach(net, None)  # its layers take what they are given
    return Subject(dataset.name, words, net, x, graph, _views(model, graph, p, rho), dataset.loss, notes)


def _views(model: nn.Module, graph: Graph, p: float, rho: float) -> Callable[[Graph], Distribution]:
    """The views that the model was trained with; else those of the rates asked for."""
    if isinstance(model, RADE) and model.rade.variant.corrects:
        own, state = model.rade, model.rate_state
        rest = (own.variant, own.correction, own.views, own.noise.noise, own.noise.trust)
        return lambda other: Distribution(other, state.rates_for(other), *rest)
    rates = Rates(p, min(rho * graph.density, 1.0))
    return lambda other: Distribution(other, rates)


def _traced(net: nn.Module, layers: nn.Module, *args: Any) -> Trace:
    """What the layers of a network did in a call of some of them."""
    trace, context = Trace(), Context(Setting(mode="clean"), lambda graph, training: Rates(0.0, 0.0))
    attach(net, context)
    try:
        with context.using(trace):
            layers(*args)
    finally:
        attach(net, None)
    return trace


def diagnose(subject: Subject, anchors: int = 16, partners: int = 8, draws: int = 4, seed: int = 0) -> Diagnosis:
    """What is found of a subject: from so many anchors, to so many partners of each, with so many draws of noise.

    ``operators`` holds what was measured of the clean operator, RADE-OF's and RADE-OFS's; ``interchange`` Prop. 4's
    ratios; ``apart`` the share of sampled pairs that no path connects; ``weights`` whose weights the network has, the
    aggregator's or the sum's; ``notes`` what was sampled. All values are plain, and finite or None.
    """
    graph, notes = subject.graph, list(subject.notes)
    if graph.num_nodes > anchors:
        notes.append(f"sensitivity and resistance from {anchors} of {graph.num_nodes:,} nodes, drawn at random")
    chosen = Sample.of(graph, anchors, partners, torch.Generator().manual_seed(seed))
    found: dict[str, dict[str, Any]] = {}
    for name in ("clean", *VARIANTS):
        known = "clean" in found and measures.is_local(subject.operator(name, graph))  # RADE-OF infers as the clean
        found[name] = found["clean"] if known else _measured(subject, name, chosen, draws, seed, notes)
    views = subject.views_of(graph)
    pairs = int(chosen.inside.sum()) - chosen.anchors.numel()
    return {
        "dataset": subject.dataset,
        "model": subject.model,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "graphs": graph.num_graphs,
        "components": int(measures.components(graph).max()) + 1,
        "layers": len(subject.net.convolutions),
        "p": number(views.rates.p),
        "q": number(views.rates.q),
        "apart": float((chosen.inside & (chosen.distance < 0)).sum()) / max(pairs, 1),
        "weights": "aggregator" if subject.symmetric else "sum",
        "operators": found,
        "interchange": {name: _interchange(subject, replace(views, variant=one)) for name, one in VARIANTS.items()},
        "notes": list(dict.fromkeys(notes)),
    }


def _measured(subject: Subject, name: str, chosen: Sample, draws: int, seed: int, notes: list[str]) -> dict[str, Any]:
    """One operator: gaps, means over pairs of resistances and commute times, sensitivities by distance, flips."""
    graph = subject.graph
    whole = subject.network(name, graph, torch.arange(graph.num_nodes))
    resistance = measures.effective_resistance(whole, chosen.source, chosen.target)
    commute = resistance * whole.volume.expand(graph.num_nodes)[chosen.source]
    gap, largest = _gaps(subject, name)
    steps, beyond = _sensitivity(subject, name, chosen, seed, notes)
    return {
        "gap": gap,
        "gap_largest": largest,  # of the largest component alone, where there are several
        "resistance": _mean(resistance),
        "commute": _mean(commute),
        "steps": steps,  # distance −1: no path
        "beyond": beyond,  # share of the sensitivity from further away than there are layers
        "flips": _flips(subject, name, draws, seed),  # share of predictions that differ from those without noise
    }


def _mean(values: Tensor) -> float | None:
    """Over the pairs that are solved; None without any."""
    kept = values[values.isfinite()]
    return float(kept.mean()) if kept.numel() else None


def _gaps(subject: Subject, name: str) -> tuple[float | None, float | None]:
    """The mean gap over graphs that have at least two nodes; and, of one graph in pieces, that of the largest piece."""
    graph, gaps = subject.graph, []
    for place in range(graph.num_graphs):
        begin, end = graph.ptr[place : place + 2].tolist()
        if end - begin > 1:
            one = graph if graph.num_graphs == 1 else graph.pick(torch.tensor([place]))
            gaps.append(measures.spectral_gap(subject.network(name, one, torch.arange(begin, end))))
    mean = _mean(torch.tensor(gaps, dtype=torch.double))
    if graph.num_graphs > 1:
        return mean, None
    largest, nodes = measures.largest_component(graph)
    whole = nodes.numel() == graph.num_nodes
    return mean, None if whole else measures.spectral_gap(subject.network(name, largest, nodes))


def _sensitivity(
    subject: Subject, name: str, chosen: Sample, seed: int, notes: list[str]
) -> tuple[list[dict[str, Any]], float | None]:
    """Pairs and mean ‖∂h_i/∂h⁰_j‖ by distance, and the share of the sum that comes from beyond the layers' reach."""
    graph, width = subject.graph, subject.x.size(1)
    unprojected = subject.x.layout != torch.strided and not list(subject.net.encoder.children())
    if unprojected and graph.num_nodes * width > WIDEST:
        notes.append(f"no sensitivities: {width:,} sparse features enter the first layer as they are")
        return [], None
    draws = torch.Generator().manual_seed(seed)
    norms = measures.jacobian_norms(subject.net, subject.x, subject.operator(name, graph), chosen.anchors, draws)
    distance, inside = chosen.distance, chosen.inside
    steps = []
    for far in torch.unique(distance[inside]).tolist():
        at = inside & (distance == far)
        steps.append({"distance": far, "pairs": int(at.sum()), "sensitivity": float(norms[at].mean())})
    far_away = inside & ((distance > len(subject.net.convolutions)) | (distance < 0))
    total = norms[inside].sum().clamp(min=torch.finfo(norms.dtype).tiny)
    return steps, float(norms[far_away].sum() / total)


@torch.no_grad()
def _flips(subject: Subject, name: str, draws: int, seed: int) -> dict[str, dict[str, float]]:
    """By kind and share of noise: edges lost, as many spurious, or both; the same noise for every operator."""
    before = subject.decisions(name, subject.graph)

    def changed(drop: float, add: float) -> float:
        total = 0.0
        for draw in range(draws):
            noisy = Corruption(drop, add, seed + draw).of(subject.graph)
            total += float((subject.decisions(name, noisy) != before).double().mean())
        return total / draws

    return {
        kind: {f"{level:g}": changed(drop * level, add * level) for level in LEVELS}
        for kind, (drop, add) in KINDS.items()
    }


@torch.no_grad()
def _interchange(subject: Subject, views: Distribution) -> dict[str, float | None]:
    """Prop. 4's κ of the messages that the last convolution sends: quantiles, and the additions' share of variance."""
    entered = measures.passed(subject.net, subject.x, Adjacency(subject.graph))[1]
    last = _traced(subject.net, subject.net.convolutions[-1], entered, subject.graph).last
    sent = LogitMessages(last.coefficients, last.pushed(subject.net.head.weight))
    kappa = measures.ratios(to_anybody(with_heads(sent.messages)).sum(1), views)
    low, median, high = torch.quantile(kappa, torch.tensor([0.05, 0.5, 0.95], dtype=kappa.dtype)).tolist()
    found = variance(sent, views)
    added = _mean((found.add.sum() / found.total.sum())[None])
    return {"low": low, "median": median, "high": high, "added": added}
