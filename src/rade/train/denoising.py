"""Noise of a data set's graph in training and prediction: given, or found by validation; and trust in single edges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rade import RADE, Denoised, Expected, Graph, NoiseEstimate, Rates, Trust, estimate_noise
from rade.data import Dataset
from rade.errors import SettingsError
from rade.noise import FeatureEvidence, Guess, paired_gain, rightly, share_of
from rade.train.settings import Settings
from rade.train.stages import split_for

if TYPE_CHECKING:
    from rade.train.model import Trained

SUSPECT = 0.3  # the share by similarities from which "no noise" deserves a hint
FEATURES = "features"  # by whose similarity edges are trusted


def trust_in(dataset: Dataset, noise: Rates) -> Trust:
    """How far each edge is trusted where noise has these rates; the same for the same graph."""
    require_one_graph(dataset, "trust in single edges needs")
    graph = Graph.from_edge_index(dataset.graphs[0].edge_index, dataset.graphs[0].num_nodes)
    return FeatureEvidence.of(graph, dataset.graphs[0].x).trust(share_of(graph, noise))


def require_one_graph(dataset: Dataset, what: str) -> None:
    """Refuse a data set of many graphs."""
    if dataset.level != "node" or len(dataset.graphs) != 1:
        raise SettingsError(f"{what} a data set of one graph, not {dataset.name}; give rates P,Q alone")


def parse_noise(text: str) -> dict[str, Any]:
    """`P,Q` or `P,Q,KIND` as settings.

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
            f"trusted if you like, 0.1,0.001,{FEATURES}; or auto; got {text!r}"
        )
    found: dict[str, Any] = {"noise_p": float(rates.p), "noise_q": float(rates.q)}
    return found | ({"noise_trust": similarity[0]} if similarity else {})


def check_noise(dataset: Dataset, settings: Settings) -> None:
    """Refuse noise that leaves nothing of the graph, and trust in edges where there is no one graph to have it in."""
    p, q = (float(settings.options.get(name, 0.0)) for name in ("noise_p", "noise_q"))
    if settings.options.get("noise_trust"):
        require_one_graph(dataset, "trust in single edges needs")
    if p == 0.0 and q == 0.0:
        return
    _require_whole_graph(dataset, settings)
    if p + q >= 1.0 or q >= dataset.density:
        raise SettingsError(
            f"noise of p = {p:g} and q = {q:g} leaves no real edge: p + q must be smaller than 1, and q smaller than "
            f"the density of {dataset.name}, {dataset.density:.3g}"
        )


@dataclass(frozen=True)
class Pilot:
    """What noise a graph has, told by training with it.

    gain, error: of the validation score over that of a plain training, paired by rows.
    """

    guess: Guess
    gain: float
    error: float

    @property
    def helps(self) -> bool:
        """By more than one standard error, as for predictions."""
        return self.gain > self.error

    @property
    def options(self) -> dict[str, Any]:
        """The settings of a training that follows it."""
        return options_of(self.guess) if self.helps else {"noise_p": 0.0, "noise_q": 0.0}

    def __str__(self) -> str:
        taken = "taken" if self.helps else "not distinguishable from none, so trained as if there were none"
        return (
            f"{self.guess.share:.0%} of the edges spurious, {self.guess.how}, changes the validation score of a "
            f"training by {100 * self.gain:+.1f} ± {100 * self.error:.1f} points: {taken}"
        )


def pilot(dataset: Dataset, settings: Settings) -> Pilot:
    """The noise by the validation labels of run 0 and up to four trainings: plain, then with noise.

    A plain model, trained first, says which share is best for each kind of trust. But a model that has learned from
    spurious edges is no judge of them: each is tried in training, as are the shares that similarities tell without
    labels, and the best one must beat the plain training.
    """
    check_estimable(dataset, settings)
    rows, labels = split_for(dataset, settings, 0).val, dataset.graphs[0].y
    plain = _trained(dataset, settings, "none", {})
    before, tried = rightly(plain.predict(dataset), labels)[rows], []
    by_edge = not settings.test_corrupt  # trust is that in the edges of one graph
    for guess in _estimate(plain, dataset, by_edge).worth_training:
        options = {"p": 0.0, "rho": 0.0} | options_of(guess)
        after = rightly(_trained(dataset, settings, "rade-of-fixed", options).predict(dataset), labels)[rows]
        tried.append(Pilot(guess, *paired_gain(after, before)))
    return max(tried, key=lambda one: one.gain)


def options_of(guess: Guess) -> dict[str, Any]:
    """A guess of the noise as settings."""
    trust = {} if guess.evidence is None else {"noise_trust": FEATURES}
    return {"noise_p": float(guess.rates.p), "noise_q": float(guess.rates.q), **trust}


def denoised(trained: Trained, dataset: Dataset, noise: str) -> tuple[Trained, str]:
    """A trained model that undoes noise `P,Q[,KIND]`, or for `auto` what the validation labels of its run say."""
    if noise == "auto":
        check_estimable(dataset, trained.settings)
        found = _estimate(trained, dataset)
        return trained.by(found.inference), f"{found}{_blind(found)}"
    options = parse_noise(noise)
    check_noise(dataset, trained.settings.model_copy(update={"options": options}))
    rates = Rates(options["noise_p"], options["noise_q"])
    trust = trust_in(dataset, rates) if "noise_trust" in options else Denoised.trust
    how = f"by {options['noise_trust']}" if "noise_trust" in options else "alike"
    words = f"p = {rates.p:g}, q = {rates.q:g}, edges trusted {how}"
    return trained.by(Denoised(rates, trust)), words


def _blind(found: NoiseEstimate) -> str:
    """A hint where the model sees no noise and similarities do."""
    if found.chosen.share > 0.0 or found.similar is None or found.similar < SUSPECT:
        return ""
    return "; a model that was trained on spurious edges often sees none, rade train --noise auto looks deeper"


def _estimate(trained: Trained, dataset: Dataset, by_edge: bool = True) -> NoiseEstimate:
    """By shares of spurious edges, and by trust in single edges as well."""
    model, data = trained.by(Expected()).learner.net, dataset.graphs[0]
    assert isinstance(model, RADE)
    rows = split_for(dataset, trained.settings, trained.seed - trained.settings.seed).val
    return estimate_noise(model, data.x, data.edge_index, labels=data.y, rows=rows, by_edge=by_edge)


def _trained(dataset: Dataset, settings: Settings, method: str, options: dict[str, Any]) -> Trained:
    """Run 0 of the same settings with another method, kept nowhere."""
    asked = settings.model_copy(update={"method": method, "options": options})
    from rade.train.run import load_run, train_run  # here, for learners are built with the trust of this module

    with TemporaryDirectory() as folder:
        train_run(dataset, asked, 0, Path(folder))
        return load_run(folder)


def _require_whole_graph(dataset: Dataset, settings: Settings) -> None:
    """Sampled neighborhoods have edges of a few nodes and none of their other pairs: rates of pairs mean nothing."""
    if dataset.level == "node" and settings.batch_size > 0:
        raise SettingsError("noise is undone on the whole graph: leave batch_size at 0")


def check_estimable(dataset: Dataset, settings: Settings) -> None:
    """Refuse data whose noise cannot be found by validation."""
    _require_whole_graph(dataset, settings)
    if dataset.level != "node" or dataset.loss != "multiclass":
        raise SettingsError(
            f"noise is estimated on data sets of one graph with classes of nodes, not on {dataset.name}; give rates P,Q"
        )
