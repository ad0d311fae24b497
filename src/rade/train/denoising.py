"""Noise of a data set's graph in training and prediction: rates that are given or estimated, trust in single edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rade import RADE, Denoised, Expected, Graph, Rates, Trust, estimate_noise
from rade.data import Dataset
from rade.errors import SettingsError
from rade.noise import FeatureEvidence, share_of
from rade.train.settings import Settings
from rade.train.stages import require_one_graph, split_for

if TYPE_CHECKING:
    from rade.train.model import Trained

FEATURES = "features"  # by whose similarity edges are trusted
TRUST = "trust in single edges"


def trust_in(dataset: Dataset, noise: Rates) -> Trust:
    """How far each edge is trusted where noise has these rates; the same for the same graph."""
    require_one_graph(dataset, TRUST)
    graph = Graph.from_edge_index(dataset.graphs[0].edge_index, dataset.graphs[0].num_nodes)
    return FeatureEvidence.of(graph, dataset.graphs[0].x).trust(share_of(graph, noise))


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
        rates = Rates(p, q)
    except ValueError:
        rates = None
    if rates is None or similarity not in ([], [FEATURES]):
        raise SettingsError(
            "noise is P,Q, the rates of missing and of spurious edges, e.g. 0.1,0.001, and by what edges are "
            f"trusted if you like, 0.1,0.001,{FEATURES}; rade predict RUN --noise auto estimates it; got {text!r}"
        )
    found: dict[str, Any] = {"noise_p": float(rates.p), "noise_q": float(rates.q)}
    return found | ({"noise_trust": similarity[0]} if similarity else {})


def check_noise(dataset: Dataset, settings: Settings) -> None:
    """Refuse noise that leaves nothing of the graph, and trust in edges where there is no one graph to have it in."""
    p, q = (float(settings.options.get(name, 0.0)) for name in ("noise_p", "noise_q"))
    if settings.options.get("noise_trust"):
        require_one_graph(dataset, TRUST)
    if p == 0.0 and q == 0.0:
        return
    _require_whole_graph(dataset, settings)
    if p + q >= 1.0 or q >= dataset.density:
        raise SettingsError(
            f"noise of p = {p:g} and q = {q:g} leaves no real edge: p + q must be smaller than 1, and q smaller than "
            f"the density of {dataset.name}, {dataset.density:.3g}"
        )


def denoised(trained: Trained, dataset: Dataset, noise: str) -> tuple[Trained, str]:
    """A trained model that undoes noise `P,Q[,features]`, or for `auto` what the validation labels of its run say."""
    if noise == "auto":
        return _estimated(trained, dataset)
    options = parse_noise(noise)
    check_noise(dataset, trained.settings.model_copy(update={"options": options}))
    rates = Rates(options["noise_p"], options["noise_q"])
    trust = trust_in(dataset, rates) if "noise_trust" in options else Denoised.trust
    how = f"by {options['noise_trust']}" if "noise_trust" in options else "alike"
    words = f"p = {rates.p:g}, q = {rates.q:g}, edges trusted {how}"
    return trained.by(Denoised(rates, trust)), words


def _estimated(trained: Trained, dataset: Dataset) -> tuple[Trained, str]:
    _require_whole_graph(dataset, trained.settings)
    if dataset.level != "node" or dataset.loss != "multiclass":
        raise SettingsError(
            f"noise is estimated on data sets of one graph with classes of nodes, not on {dataset.name}; give rates P,Q"
        )
    model, data = trained.by(Expected()).learner.net, dataset.graphs[0]
    assert isinstance(model, RADE)
    rows = split_for(dataset, trained.settings, trained.seed - trained.settings.seed).val
    found = estimate_noise(model, data.x, data.edge_index, labels=data.y, rows=rows)
    return trained.by(found.inference), str(found)


def _require_whole_graph(dataset: Dataset, settings: Settings) -> None:
    """Sampled neighborhoods have edges of a few nodes and none of their other pairs: rates of pairs mean nothing."""
    if dataset.level == "node" and settings.batch_size > 0:
        raise SettingsError("noise is undone on the whole graph: leave batch_size at 0")
