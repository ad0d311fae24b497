"""What RADE does to a model, in numbers: each layer, the noise of its logits, and which predictions depend on edges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from rade.correction import factors
from rade.distribution import Distribution, Rates
from rade.nn.base import convolutions
from rade.nn.trace import Aggregated, Trace, logits_of
from rade.rates.all_layers import variance_of_all_layers
from rade.rates.rate_step import Repeated
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import regulariser
from rade.rates.variance import LogitMessages, variance
from rade.views import returning
from rade.wrapper.inference import Inference, sampled

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
OFTEN = 0.25


@dataclass(frozen=True)
class LayerReport:
    """One convolution under the current rates.

    ``interchange`` is the variation over nodes, std/mean, of Σ_nonedges m̃² / Σ_edges m² (Prop. 4): 0 would mean that
    one add rate can do exactly what one drop rate does.
    """

    path: str
    layer: str
    p: float
    q: float
    expected_kept: float  # undirected edges
    expected_added: float
    factor_quantiles: tuple[float, ...]  # of α/E[α'] at 0, 25, 50, 75, 100 %
    clipped_share: float  # of factors at the cap
    exact: bool  # whether α/E[α'] is that of the distribution, and no expansion of it
    drop_variance_share: float
    add_variance_share: float
    interchange: float


def explain_layers(call: Repeated) -> list[LayerReport]:
    """A report for every convolution with moments that a clean forward pass called, in order."""
    trace, context = Trace(), call.context
    with torch.no_grad():
        with context.using(trace, mode="clean"):
            call.run()
        paths = {id(conv): path for path, conv in convolutions(call.model).items()}
        return [
            _layer_report(paths[id(layer)], layer, last, context.distribution(last.adjacency.graph, training=True))
            for layer, last in trace.calls
        ]


def _layer_report(path: str, layer: Module, last: Aggregated, distribution: Distribution) -> LayerReport:
    graph = distribution.graph
    sent = LogitMessages(last.coefficients, last.pushed(None))
    corrected, found = factors(last.coefficients, distribution), variance(sent, distribution)
    clipped = corrected.edges >= last.coefficients.cap(distribution)
    drop, add = float(found.drop.sum()), float(found.add.sum())
    p, q = float(distribution.rates.p), float(distribution.rates.q)
    # A rate of 0 has no variance to compare with: the ratio is then taken at the paper's first rates.
    both = Rates(p if p > 0.0 else 0.5, q if q > 0.0 else 0.5 * graph.density)
    compared = found if p > 0.0 and q > 0.0 else variance(sent, distribution.at(both))
    return LayerReport(
        path=path,
        layer=type(layer).__name__,
        p=p,
        q=q,
        expected_kept=(1.0 - p) * graph.num_edges,
        expected_added=q * graph.num_nonedges,
        factor_quantiles=_quantiles(corrected.edges),
        clipped_share=float(clipped.double().mean()) if clipped.numel() else 0.0,
        exact=distribution.correction.moments == "exact",
        drop_variance_share=drop / (drop + add) if drop + add > 0 else 0.0,
        add_variance_share=add / (drop + add) if drop + add > 0 else 0.0,
        interchange=_interchange(compared.drop.sum(-1), compared.add.sum(-1)),
    )


def _quantiles(values: Tensor) -> tuple[float, ...]:
    if values.numel() == 0:
        return ()
    ordered = values.flatten().sort().values  # torch.quantile refuses more than 16 million values
    return tuple(float(ordered[round(quantile * (ordered.numel() - 1))]) for quantile in QUANTILES)


def _interchange(drop: Tensor, add: Tensor) -> float:
    """std/mean over nodes of the add-to-drop ratio; the rates scale it, and so cancel."""
    ratio = (add / drop)[drop > 0]
    return float(ratio.std() / ratio.mean()) if ratio.numel() > 1 and bool(torch.isfinite(ratio).all()) else 0.0


@dataclass(frozen=True)
class NoiseReport:
    """R = 1/(2|B|) Σ w Var(δ) of a model at its present rates, three times.

    ``sampled`` is the truth to within ``error`` (one standard error over groups of views); ``all_layers`` the formula
    through all layers; ``last_layer`` the paper's, which drops the activations behind the last aggregation, and is nan
    where the logits are no linear map of it.
    """

    sampled: float
    error: float
    all_layers: float
    last_layer: float


def noise_report(call: Repeated, labelled: Labelled, views: int, signs: int) -> NoiseReport:
    """Sample ``views`` views and set both formulas beside them; only views are random, and the generator returns."""
    if views < 8:
        raise ValueError(f"a variance needs at least 8 views, got {views}")
    context, readout, mean = call.context, call.readout, Trace(with_gradients=True)
    with torch.enable_grad(), returning(context.generator):
        with context.using(mean, mode="mean"):
            logits = logits_of(call.run())
        distribution = context.distribution(mean.graph, training=True)
        scores = readout.scores(logits, distribution.graph)
        rows = labelled.chosen(scores.shape[0], scores.device)
        weight = labelled.masked(readout.curvature(scores[rows], rows)).detach()
        modelled = []
        for _ in range(signs):
            training = Trace()  # with gradients, as the mean: whether a layer maps before it sums depends on them
            sampled(context, call.run, trace=training)
            coin = torch.randint(2, weight.shape, generator=context.generator, device=weight.device)
            form = weight.sqrt() * (2 * coin - 1)
            drop, add = variance_of_all_layers(scores[rows], mean.sums, training.sums, distribution, form)
            modelled.append(float(drop + add) / (2 * len(rows)))
        with torch.no_grad():
            drawn = [_matrix(logits_of(sampled(context, call.run)))[rows] for _ in range(views)]
        found, error = _regulariser_of(torch.stack(drawn), weight)
        return NoiseReport(found, error, sum(modelled) / signs, _last_layer(call, labelled, distribution))


def _regulariser_of(seen: Tensor, weight: Tensor) -> tuple[float, float]:
    """R of logits on views [views, k, C], and its standard error over groups of views."""
    groups = [part for part in seen.chunk(min(8, len(seen) // 2)) if len(part) > 1]
    found = torch.stack([0.5 * (weight * part.var(0)).sum() / len(weight) for part in groups]).double()
    total = 0.5 * (weight * seen.var(0)).sum() / len(weight)
    return float(total), float(found.std() / len(groups) ** 0.5)


def _last_layer(call: Repeated, labelled: Labelled, distribution: Distribution) -> float:
    try:
        clean = call.clean()
    except ValueError:
        return float("nan")
    return float(regulariser(clean, call.readout, labelled, distribution, ())(distribution.rates).detach())


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """A model's predictions under random edges at some rates; rows are nodes, or graphs of a pooling model.

    Attributes:
        logits: [k, C] those of inference.
        std: [k, C] standard deviation of each logit over views of the last convolution, in closed form (Eq. 12), given
            what comes into it; exact for sums, while means and degrees also covary within a node, which it leaves out.
            The sampled one where there is no closed form, which ``note`` then says.
        sampled_std: [k, C] the same by sampling, through all layers.
        flips: [k] share of the sampled views whose prediction differs from that of inference: another class, or
            another side of 0 for any logit of a sigmoid; nan for regression.
        views: how many views were sampled.
        note: why ``std`` is no closed form, "" where it is.
    """

    logits: Tensor
    std: Tensor
    sampled_std: Tensor
    flips: Tensor
    views: int
    note: str = ""

    @property
    def fragile(self) -> Tensor:
        """[k] rows in the order in which they depend on single edges: most often changed first, ties by deviation."""
        share = torch.where(self.flips.isnan(), torch.zeros_like(self.flips), self.flips)
        by_deviation = self.sampled_std.amax(1).argsort(descending=True, stable=True)
        return by_deviation[share[by_deviation].argsort(descending=True, stable=True)]

    def __str__(self) -> str:
        often = int((self.flips > OFTEN).sum())
        share = f"{100 * float(self.flips.mean()):.1f} % of views change a prediction"
        return (
            f"{len(self.flips)} predictions, {self.views} views: {share}, {often} predictions change in more than a "
            f"quarter of them; a logit's standard deviation is {float(self.std.median()):.2g} in the median"
        )


def uncertainty(call: Repeated, inference: Inference, views: int, rates: Rates | None) -> Uncertainty:
    """In evaluation mode, so that only views are random; the generator goes on as if nothing had been drawn."""
    if views < 2:
        raise ValueError(f"a standard deviation needs at least 2 views, got views = {views}")
    with torch.no_grad(), returning(call.context.generator):
        mean = _matrix(logits_of(inference(call.context, call.run)))
        flips, deviation = _sampled_decisions(call, mean, views, rates)
        closed, note = _closed_form(call, rates)
    return Uncertainty(mean, deviation if closed is None else closed, deviation, flips, views, note)


def _sampled_decisions(call: Repeated, mean: Tensor, views: int, rates: Rates | None) -> tuple[Tensor, Tensor]:
    """Shares of views that decide otherwise, and deviations around the views' own mean."""
    decided = _decisions(mean, call.readout)
    changed = torch.zeros_like(decided[:, 0], dtype=torch.double)
    total, squares = torch.zeros_like(mean, dtype=torch.double), torch.zeros_like(mean, dtype=torch.double)
    for _ in range(views):
        seen = _matrix(logits_of(sampled(call.context, call.run, rates)))
        changed += (_decisions(seen, call.readout) != decided).any(1)
        away = (seen - mean).double()  # relative to inference, lest large logits cancel
        total += away
        squares += away.square()
    found = (squares - total.square() / views).clamp(min=0) / (views - 1)
    flips = torch.full_like(changed, torch.nan) if call.readout.task == "regression" else changed / views
    return flips.to(mean.dtype), found.sqrt().to(mean.dtype)


def _closed_form(call: Repeated, rates: Rates | None) -> tuple[Tensor | None, str]:
    """√Var(δ), or why there is none."""
    for conv in convolutions(call.model).values():
        if option := conv.nonlinear:
            return None, f"{type(conv).__name__}({option}) is not linear in what it sums: there is no closed form"
    try:
        clean = call.clean()
    except ValueError as refusal:
        return None, " ".join(str(refusal).split())
    with call.context.using(rates=rates):
        distribution = call.context.distribution(clean.graph, training=False)
    rows = torch.arange(clean.logits.shape[0], device=clean.logits.device)
    return call.readout.variance(clean.messages, distribution, rows).total.detach().sqrt(), ""


def _decisions(logits: Tensor, readout: Readout) -> Tensor:
    """[k, 1] the class, or [k, C] the side of 0."""
    if readout.is_softmax and logits.shape[1] > 1:
        return logits.argmax(1, keepdim=True)
    return logits > 0


def _matrix(logits: Tensor) -> Tensor:
    return logits if logits.dim() == 2 else logits[:, None]
