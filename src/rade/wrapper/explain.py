"""What RADE does to each layer of a model, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from rade.control.variance import variance
from rade.correction import terms
from rade.nn.base import CorrectedConv
from rade.nn.trace import Trace, extras
from rade.view.law import Law
from rade.view.rates import Rates
from rade.wrapper.rounded import Rounded

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, repr=False)
class LayerReport(Rounded):
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
    clipped_share: float
    exact: bool  # whether α/E[α'] is that of the law, and no expansion or estimate of it
    drop_variance_share: float
    add_variance_share: float
    interchange: float

    def asdict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def explain_layers(trace: Trace, law: Law) -> list[LayerReport]:
    """A report for every convolution that a clean forward pass called, in order."""
    return [_report(path, conv, inputs, law) for path, conv, inputs in trace.calls]


def estimated_layers(trace: Trace, law: Law) -> list[str]:
    """Convolutions of a clean pass whose moments are no exact ones, by path and kind."""
    return [f"{path} ({type(conv).__name__})" for path, conv, inputs in trace.calls if not _exact(conv, inputs, law)]


def _exact(conv: CorrectedConv, inputs: dict[str, Any], law: Law) -> bool:
    """True also where a layer cannot tell what it sends."""
    try:
        return conv.sent(None, law.graph, inputs["x"], **extras(inputs)).coefficients.is_exact(law)
    except ValueError:
        return True


def _report(path: str, conv: CorrectedConv, inputs: dict[str, Any], law: Law) -> LayerReport:
    graph = law.graph
    sent = conv.sent(None, graph, inputs["x"], **extras(inputs))
    of = terms(sent.coefficients, law)
    found = variance(sent, law)
    drop, add = float(found.drop.sum()), float(found.add.sum())
    p, q = float(law.rates.p), float(law.rates.q)
    # A rate of 0 has no variance to compare with: the ratio is then taken at the paper's first rates.
    both = Rates(p if p > 0.0 else 0.5, q if q > 0.0 else 0.5 * graph.density)
    compared = found if p > 0.0 and q > 0.0 else variance(sent, law.at(both))
    return LayerReport(
        path=path,
        layer=type(conv).__name__,
        p=p,
        q=q,
        expected_kept=(1.0 - p) * graph.num_edges,
        expected_added=q * graph.num_nonedges,
        factor_quantiles=_quantiles(of.edges),
        clipped_share=float(of.clipped.double().mean()) if of.clipped.numel() else 0.0,
        exact=sent.coefficients.is_exact(law),
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
