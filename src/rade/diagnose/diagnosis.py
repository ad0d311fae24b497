"""All measures of one subject, for the clean operator, RADE-OF's and RADE-OFS's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from typing import Any, cast

import torch

from rade.diagnose.flips import flips
from rade.diagnose.interchange import Interchange, interchange
from rade.diagnose.network import Network, components, conductors, induced, largest_component, network
from rade.diagnose.resistance import effective_resistance
from rade.diagnose.sample import Sample, sample
from rade.diagnose.sensitivity import beyond, by_distance, jacobian_norms, watching
from rade.diagnose.spectrum import spectral_gap
from rade.diagnose.subject import Subject
from rade.graph.graph import Graph
from rade.graph.sparse import rows_of
from rade.moments import Coefficients
from rade.nn.base import CorrectedConv
from rade.view.law import Law
from rade.view.rates import number
from rade.view.view import MeanView

LARGE = 50_000  # nodes; beyond, fewer anchors are taken
WIDEST = 2**28  # entries of dense features that derivatives may be taken in


@dataclass(frozen=True)
class Effort:
    """How much is sampled: anchors, partners of each for resistances, draws of noise; and the seed of it all."""

    anchors: int = 16
    partners: int = 8
    draws: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("anchors", "partners", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Step:
    """All sampled pairs at one distance, −1 for those that no path connects."""

    distance: int
    pairs: int
    sensitivity: float  # mean ‖∂h_i/∂h⁰_j‖


@dataclass(frozen=True)
class Measured:
    """One operator: its gap, resistances and commute times (means over pairs), sensitivities, flips."""

    gap: float
    gap_largest: float | None  # of the largest component alone, where there are several
    resistance: float | None
    commute: float | None
    steps: tuple[Step, ...]
    beyond: float | None  # share of the sensitivity from further away than there are layers
    flips: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Diagnosis:
    """What was found, in plain values."""

    dataset: str
    model: str
    nodes: int
    edges: int
    graphs: int
    components: int
    layers: int
    p: float
    q: float
    apart: float  # share of sampled pairs that no path connects
    weights: str  # whose weights the network has: the aggregator's, or the sum's
    operators: dict[str, Measured]
    interchange: dict[str, Interchange]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not finite becomes null."""
        return cast(dict[str, Any], _plain(asdict(self)))


def diagnose(
    subject: Subject,
    effort: Effort = Effort(),  # noqa: B008 - a frozen value
    told: Callable[[str], None] = lambda text: None,
) -> Diagnosis:
    """Measure a subject; ``told`` hears what is being done. RADE-OF's inference is the clean one: measured once."""
    graph, notes = subject.graph, list(subject.notes)
    anchors = effort.anchors if graph.num_nodes <= LARGE else max(effort.anchors // 4, 1)
    if graph.num_nodes > anchors:
        notes.append(f"sensitivity and resistance from {anchors} of {graph.num_nodes:,} nodes, drawn at random")
    draws = torch.Generator().manual_seed(effort.seed)
    chosen = sample(graph, anchors, effort.partners, draws)
    operators = subject.operators(graph)
    first = Flow.of(subject)
    found: dict[str, Measured] = {}
    for name, adjacency in operators.items():
        if adjacency.local and "clean" in found:
            found[name] = found["clean"]
            continue
        told(f"{name}: spectral gap, resistances, sensitivities, flips")
        found[name] = _measured(subject, name, first, chosen, effort, notes)
    laws = {name: adjacency.law for name, adjacency in operators.items() if isinstance(adjacency, MeanView)}
    law = subject.law_on(graph)
    return Diagnosis(
        dataset=subject.dataset,
        model=subject.model,
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        graphs=graph.num_graphs,
        components=int(components(graph).max()) + 1,
        layers=len(subject.net.convolutions),
        p=number(law.rates.p),
        q=number(law.rates.q),
        apart=chosen.apart,
        weights="aggregator" if first.own else "sum",
        operators=found,
        interchange={name: _interchange(subject, law) for name, law in laws.items()},
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True, eq=False)
class Flow:
    """Where the networks of a subject come from: its first convolution, and what enters it."""

    subject: Subject
    inputs: torch.Tensor
    own: bool  # whether its weights are symmetric; else the sum's stand in

    @staticmethod
    def of(subject: Subject) -> Flow:
        """Ask the first convolution once."""
        with torch.no_grad():
            inputs = subject.net.before(subject.net.encoder(subject.x))
            found = _coefficients(subject, subject.graph, inputs)
            kept = conductors(subject.operators(subject.graph)["rade-ofs"], found)
        return Flow(subject, inputs, kept is found)

    def network(self, name: str, graph: Graph, nodes: torch.Tensor) -> Network:
        """The network of an operator on a graph made of these nodes."""
        adjacency = self.subject.operators(graph)[name]
        with torch.no_grad():
            found = _coefficients(self.subject, graph, self.inputs.index_select(0, nodes))
            return network(adjacency, found if self.own else conductors(adjacency, found))


def _coefficients(subject: Subject, graph: Graph, inputs: torch.Tensor) -> Coefficients:
    return cast(CorrectedConv, subject.net.convolutions[0]).sent(None, graph, inputs).coefficients


def _measured(subject: Subject, name: str, flow: Flow, chosen: Sample, effort: Effort, notes: list[str]) -> Measured:
    graph = subject.graph
    everybody = torch.arange(graph.num_nodes)
    whole = flow.network(name, graph, everybody)
    resistance = effective_resistance(whole, chosen.source, chosen.target)
    commute = resistance * whole.volume.expand(graph.num_nodes)[chosen.source]
    steps, share = _sensitivity(subject, name, chosen, effort, notes)
    predict = partial(_predict, subject, name)
    return Measured(
        gap=_mean_gap(flow, name, graph),
        gap_largest=_largest_gap(flow, name, graph),
        resistance=_mean(resistance),
        commute=_mean(commute),
        steps=steps,
        beyond=share,
        flips=flips(predict, graph, subject.loss, effort.draws, effort.seed),
    )


def _predict(subject: Subject, name: str, graph: Graph) -> torch.Tensor:
    return subject.logits(subject.operators(graph)[name])


def _mean_gap(flow: Flow, name: str, graph: Graph) -> float:
    """Over the graphs of a batch that have at least two nodes."""
    gaps = []
    for place in range(graph.num_graphs):
        begin, end = graph.ptr[place : place + 2].tolist()
        if end - begin > 1:
            one = graph if graph.num_graphs == 1 else graph.pick(torch.tensor([place]))
            gaps.append(spectral_gap(flow.network(name, one, torch.arange(begin, end))))
    return sum(gaps) / len(gaps) if gaps else float("nan")


def _largest_gap(flow: Flow, name: str, graph: Graph) -> float | None:
    """Of the largest component of a single graph that has several."""
    if graph.num_graphs > 1:
        return None
    nodes = largest_component(graph)
    if nodes.numel() == graph.num_nodes:
        return None
    return spectral_gap(flow.network(name, induced(graph, nodes), nodes))


def _sensitivity(
    subject: Subject, name: str, chosen: Sample, effort: Effort, notes: list[str]
) -> tuple[tuple[Step, ...], float | None]:
    graph = subject.graph
    width = subject.x.size(1)
    unprojected = subject.x.layout != torch.strided and not list(subject.net.encoder.children())
    if unprojected and graph.num_nodes * width > WIDEST:
        notes.append(f"no sensitivities: {width:,} sparse features enter the first layer as they are")
        return (), None
    draws = torch.Generator().manual_seed(effort.seed)
    # Graphs of a batch do not hear each other: those without an anchor are left out.
    graphs = torch.unique(graph.batch[chosen.anchors])
    nodes = torch.isin(graph.batch, graphs).nonzero().squeeze(1)
    part = graph if graphs.numel() == graph.num_graphs else graph.pick(graphs)
    anchors, x = torch.searchsorted(nodes, chosen.anchors), rows_of(subject.x, nodes)
    norms = jacobian_norms(subject.net, x, subject.operators(part)[name], anchors, draws)
    distance, inside = chosen.distance[:, nodes], chosen.inside[:, nodes]
    found = by_distance(norms, distance, inside)
    steps = tuple(Step(far, pairs, mean) for far, (pairs, mean) in sorted(found.items()))
    return steps, beyond(norms, distance, inside, len(subject.net.convolutions))


def _interchange(subject: Subject, law: Law) -> Interchange:
    """By what the last convolution sends on the clean graph."""
    with torch.no_grad(), watching(subject.net) as seen:
        subject.logits(subject.graph)
        last = cast(CorrectedConv, subject.net.convolutions[-1])
        return interchange(last.sent(subject.net.head.weight, subject.graph, seen.last), law)


def _mean(values: torch.Tensor) -> float | None:
    """Over the pairs that are solved; None without any."""
    kept = values[values.isfinite()]
    return float(kept.mean()) if kept.numel() else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value
