"""Noise of a data set's graph in training and prediction: given, or found by validation."""

from pathlib import Path
from tempfile import TemporaryDirectory

from rade.data import Dataset
from rade.noise import NoiseEstimate, estimate_noise, every_evidence
from rade.train.corruption import Corruption
from rade.train.errors import SettingsError
from rade.train.model import Trained
from rade.train.run import load_run, split_for, train_run
from rade.train.settings import Settings
from rade.view.rates import Rates
from rade.wrapper.inference import Denoised, Expected
from rade.wrapper.module import RADE


def parse_noise(text: str) -> dict[str, float]:
    """`P,Q` as settings.

    >>> parse_noise("0.1,0.001")
    {'noise_p': 0.1, 'noise_q': 0.001}
    """
    try:
        p, q = map(float, text.split(","))
        rates = Rates(p, q)
    except ValueError:
        raise SettingsError(
            f"noise is P,Q, the rates of missing and of spurious edges, e.g. 0.1,0.001, or auto; got {text!r}"
        ) from None
    return {"noise_p": float(rates.p), "noise_q": float(rates.q)}


def corrupted(dataset: Dataset, settings: Settings) -> Dataset:
    """The data set with what the settings do to its graphs."""
    return Corruption.parse(settings.corrupt).of_dataset(dataset) if settings.corrupt else dataset


def check_noise(dataset: Dataset, settings: Settings) -> None:
    """Refuse noise that leaves nothing of the graph."""
    p, q = (float(settings.options.get(name, 0.0)) for name in ("noise_p", "noise_q"))
    if p == 0.0 and q == 0.0:
        return
    if p + q >= 1.0 or q >= dataset.density:
        raise SettingsError(
            f"noise of p = {p:g} and q = {q:g} leaves no real edge: p + q must be smaller than 1, and q smaller than "
            f"the density of {dataset.name}, {dataset.density:.3g}"
        )


def pilot(dataset: Dataset, settings: Settings) -> NoiseEstimate:
    """The noise by the validation labels of run 0 and a plain model, trained first with the same settings."""
    _require_one_graph(dataset)
    plain = settings.model_copy(update={"method": "none", "options": {}})
    with TemporaryDirectory() as folder:
        train_run(dataset, plain, 0, Path(folder))
        return _estimate(load_run(folder), dataset, by_edge=False)


def denoised(trained: Trained, dataset: Dataset, noise: str) -> tuple[Trained, NoiseEstimate | Rates]:
    """A trained model that undoes noise `P,Q` or, for `auto`, what the validation labels of its run say."""
    if noise == "auto":
        _require_one_graph(dataset)
        found = _estimate(trained, dataset, by_edge=True)
        return trained.by(found.inference), found
    options = parse_noise(noise)
    check_noise(dataset, trained.settings.model_copy(update={"options": options}))
    rates = Rates(options["noise_p"], options["noise_q"])
    return trained.by(Denoised(rates)), rates


def _estimate(trained: Trained, dataset: Dataset, by_edge: bool) -> NoiseEstimate:
    model, data = trained.by(Expected()).learner.net, dataset.graphs[0]
    assert isinstance(model, RADE)
    rows = split_for(dataset, trained.settings, trained.seed - trained.settings.seed).val
    evidence = every_evidence(model, data.x, data.edge_index) if by_edge else False
    return estimate_noise(model, data.x, data.edge_index, labels=data.y, rows=rows, by_edge=evidence)


def _require_one_graph(dataset: Dataset) -> None:
    if dataset.level != "node" or dataset.loss != "multiclass":
        raise SettingsError(
            f"noise is estimated on data sets of one graph with classes of nodes, not on {dataset.name}; give rates P,Q"
        )
