"""What RADE does to each layer of a model, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rade.control.variance import variance
from rade.correction import correction_factor
from rade.graph.graph import Graph
from rade.nn.base import CorrectedConv
from rade.view.view import Law, Rates
from rade.wrapper.trace import Trace

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class LayerReport:
    """One convolution under the current rates.

    ``interchange`` is the spread over nodes, std/mean, of Σ_nonedges m̃² / Σ_edges m² (Prop. 4): 0 would mean that one
    add rate can do exactly what one drop rate does.
    """

    path: str
    layer: str
    p: float
    q: float
    expected_kept: float  # undirected edges
    expected_added: float
    factor_quantiles: tuple[float, ...]  # of α/E[α'] at 0, 25, 50, 75, 100 %
    clipped_share: float
    drop_variance_share: float
    add_variance_share: float
    interchange: float

    def asdict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def explain_layers(trace: Trace, graph: Graph, law: Law) -> list[LayerReport]:
    """A report for every convolution that a clean forward pass called, in order."""
    return [_report(path, cast(CorrectedConv, conv), inputs, graph, law) for path, conv, inputs in trace.calls]


def _report(path: str, conv: CorrectedConv, inputs: dict[str, Any], graph: Graph, law: Law) -> LayerReport:
    rest = {name: value for name, value in inputs.items() if name not in ("x", "edge_index")}
    coefficients, messages = conv.logit_messages(None, graph, inputs["x"], **rest)
    factor = correction_factor(coefficients, coefficients.mean(law), law)
    spread = variance(coefficients, law, messages)
    drop, add = float(spread.drop.sum()), float(spread.add.sum())
    p, q = float(law.rates.p), float(law.rates.q)
    nonedges = int(graph.pair_offset[-1]) - graph.num_edges
    # A rate of 0 has no variance to compare with: the ratio is then taken at the default rates.
    both = Rates(p if p > 0.0 else 0.5, q if q > 0.0 else 0.5 * graph.density)
    compared = spread if p > 0.0 and q > 0.0 else variance(coefficients, law.at(both), messages)
    return LayerReport(
        path=path,
        layer=type(conv).__name__,
        p=p,
        q=q,
        expected_kept=(1.0 - p) * graph.num_edges,
        expected_added=q * nonedges,
        factor_quantiles=_quantiles(factor.edges),
        clipped_share=float(factor.clipped.double().mean()) if factor.clipped.numel() else 0.0,
        drop_variance_share=drop / (drop + add) if drop + add > 0 else 0.0,
        add_variance_share=add / (drop + add) if drop + add > 0 else 0.0,
        interchange=_interchange(compared.drop.sum(-1), compared.add.sum(-1)),
    )


def _quantiles(values: Tensor) -> tuple[float, ...]:
    if values.numel() == 0:
        return ()
    ordered = values.flatten().sort().values  # torch.quantile refuses more than 16 million values
    return tuple(float(ordered[round(share * (ordered.numel() - 1))]) for share in QUANTILES)


def _interchange(drop: Tensor, add: Tensor) -> float:
    """std/mean over nodes of the add-to-drop ratio; the rates scale it, and so cancel."""
    ratio = (add / drop)[drop > 0]
    return float(ratio.std() / ratio.mean()) if ratio.numel() > 1 and bool(torch.isfinite(ratio).all()) else 0.0
