"""`model.explain`: what RADE does to each layer, against counts, enumerations and closed forms."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import rade
from adapting import adapting
from looping import looped
from rade.wrapper.reports import LayerReport
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded, training_step

NODES = 40
X, EDGES = normal(NODES, 8), random_edges(NODES, 80)
GRAPH = rade.Graph.from_edge_index(EDGES, NODES)
EVERY = {**LAYERS, **ATTENTION}


def explained(name: str = "GINConv", variant: str = "of", layers: int = 2, **options: Any) -> list[LayerReport]:
    return adapting(seeded(lambda: Net(EVERY[name], layers=layers)), variant, **options).explain(X, EDGES)


@looped("variant", ["of", "ofs", "none"])
@pytest.mark.parametrize("name", EVERY)
def test_every_layer_is_reported_in_order(name, variant):
    reports = explained(name, variant, layers=3)
    assert [report.path for report in reports] == ["convs.0", "convs.1", "convs.2"]
    assert {report.layer for report in reports} == {name.split("-")[0]}
    for report in reports:
        assert report.drop_variance_share + report.add_variance_share == pytest.approx(1.0)
        assert 0.0 < report.drop_variance_share < 1.0
        assert 0.0 <= report.clipped_share <= 1.0
        assert list(report.factor_quantiles) == sorted(report.factor_quantiles)
        assert report.interchange > 0.0
        json.dumps(report.asdict(), allow_nan=False)


def test_expected_edges_are_the_mean_of_sampled_views():
    """Kept and added edges over 2,000 views: z-test at |z| < 5, false alarm 1.2e-6."""
    report = explained()[0]
    rates, generator = rade.Rates(report.p, report.q), torch.Generator().manual_seed(0)
    views = [rade.sample_view(GRAPH, rates, generator) for _ in range(2000)]
    for expected, counts in (
        (report.expected_kept, [float(view.kept.sum()) / 2 for view in views]),
        (report.expected_added, [view.added.size / 2 for view in views]),
    ):
        sample = torch.tensor(counts)
        assert abs(float(sample.mean()) - expected) < 5 * float(sample.std()) / len(views) ** 0.5


def test_reports_print_four_digits_and_keep_all():
    report = explained(rule=rade.GradNorm(p=1 / 3))[0]
    assert "p=0.3333, q=" in str([report])
    assert "factor_quantiles=(1.5, 1.5, 1.5, 1.5, 1.5)" in repr(report)
    assert report.p == 1 / 3


def test_correction_factors():
    """Sums: 1/(1−p) on every edge. GCN: different between degrees. Attention: the share above the cap."""
    assert explained("GINConv", rule=rade.GradNorm(p=0.2))[0].factor_quantiles == pytest.approx((1.25,) * 5)
    gcn = explained("GCNConv")[0].factor_quantiles
    assert gcn[0] < gcn[4]
    capped = explained("GATConv", correction=rade.Correction(cap=1.5))[0]
    assert capped.clipped_share > 0.5
    assert capped.factor_quantiles[4] == pytest.approx(1.5)
    assert explained("GATConv", correction=rade.Correction(cap="none"))[0].clipped_share == 0.0


def test_variance_shares_of_a_sum():
    """Closed form: p/(1−p) Σ_edges m² against q(1−q) Σ_nonedges (m − μ)², m the layer's messages."""
    for variant in ("of", "ofs"):
        net = seeded(lambda: Net(LAYERS["GINConv"], layers=1))
        model = rade.RADE(net, variant, rule=rade.GradNorm(p=0.3, rho=0.8))
        report = model.explain(X, EDGES)[0]
        m = (X @ net.convs[0].nn.weight.t()).detach()
        edges = torch.zeros(NODES, NODES)
        edges[EDGES[1], EDGES[0]] = 1.0
        others = 1.0 - edges - torch.eye(NODES)
        centre = others @ m / others.sum(1, keepdim=True) if variant == "of" else torch.zeros_like(m)
        apart = (others[..., None] * (m - centre[:, None]).square()).sum((1, 2))  # [n]
        along = (edges @ m.square()).sum(1)
        drop, add = 0.3 / 0.7 * along.sum(), report.q * (1 - report.q) * apart.sum()
        assert report.add_variance_share == pytest.approx(float(add / (drop + add)), rel=1e-4)
        ratio = (apart / along)[along > 0]
        assert report.interchange == pytest.approx(float(ratio.std() / ratio.mean()), rel=1e-3)


def test_interchange_does_not_depend_on_the_rates_of_a_sum():
    """Prop. 4 is about the graph and the messages; also where one rate is off."""
    rates = ((0.5, 0.5), (0.1, 2.0), (0.0, 0.5), (0.5, 0.0))
    found = [explained(rule=rade.GradNorm(p, rho))[0].interchange for p, rho in rates]
    assert found == pytest.approx([found[0]] * 4, rel=1e-4)


def test_shares_where_a_rate_is_off():
    assert explained(rule=rade.GradNorm(p=0.0))[0].add_variance_share == 1.0
    assert explained(rule=rade.GradNorm(rho=0.0))[0].drop_variance_share == 1.0
    still = explained(rule=rade.Constant(p=0.0, rho=0.0))[0]
    assert (still.drop_variance_share, still.add_variance_share) == (0.0, 0.0)


def test_interchange_vanishes_on_a_ring_of_equal_messages():
    """Where both statistics are proportional at every node, adding can do what dropping does."""
    node = torch.arange(12)
    ring = torch.cat([torch.stack([node, (node + 1) % 12]), torch.stack([(node + 1) % 12, node])], 1)
    model = adapting(seeded(lambda: Net(LAYERS["GINConv"], layers=1)), "ofs")
    assert model.explain(torch.ones(12, 8), ring)[0].interchange == pytest.approx(0.0, abs=1e-5)


def test_explaining_changes_nothing():
    """Mode, rates, density and generator stay; training continues as if it had not happened."""
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    models = [adapting(seeded(lambda: Net(LAYERS["GCNConv"])), generator=generator) for generator in generators]
    models[1].train().explain(X, EDGES)
    assert models[1].training
    for model in models:
        training_step(model, X, EDGES, labels=torch.arange(NODES) % 3)
        model.adapt(X, EDGES)
    assert models[0].rates == models[1].rates
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(models[0].parameters(), models[1].parameters()))


def test_current_rates_are_explained():
    """After training those of the model; before it the ones that training on this graph would begin with."""
    model = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), rule=rade.GradNorm(p=0.2, rho=0.4))
    assert model.explain(X, EDGES)[0].q == pytest.approx(0.4 * GRAPH.density)
    training_step(model, X, EDGES, labels=torch.arange(NODES) % 3)
    model.adapt(X, EDGES)
    report = model.explain(X, EDGES)[0]
    assert (report.p, report.q) == (model.rates.p, model.rates.q)


def test_graphs_without_edges_are_explained_too():
    model = adapting(seeded(lambda: Net(LAYERS["GCNConv"])))
    report = model.explain(X, EDGES[:, :0])[0]
    assert (report.expected_kept, report.factor_quantiles, report.interchange) == (0.0, (), 0.0)
