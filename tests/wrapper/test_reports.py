"""`model.explain` and `model.uncertainty`, against counts, closed forms and direct sampling; nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv, global_add_pool

import rade
from adapting import adapting
from rade.wrapper.inference import sampled
from rade.wrapper.reports import LayerReport
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded, training_step

NODES = 30
X, EDGES = normal(NODES, 8), random_edges(NODES, 60)
GRAPH = rade.Graph.from_edge_index(EDGES, NODES)
EVERY = {**LAYERS, **ATTENTION}
RATES = {"rule": rade.Constant(0.4, 0.3)}


def explained(name: str = "GINConv", variant: str = "of", layers: int = 2, **options: Any) -> list[LayerReport]:
    return adapting(seeded(lambda: Net(EVERY[name], layers=layers)), variant, **options).explain(X, EDGES)


def model_of(net: nn.Module, variant: str = "of", **options: Any) -> rade.RADE:
    model = rade.RADE(net, variant, generator=torch.Generator().manual_seed(0), **(RATES | options))
    model.train()(X, EDGES)
    return model.eval()


class TestExplain:
    @pytest.mark.parametrize("variant", ["of", "ofs", "none"])
    @pytest.mark.parametrize("name", EVERY)
    def test_every_layer_is_reported_in_order(self, name, variant):
        reports = explained(name, variant, layers=3)
        assert [report.path for report in reports] == ["convs.0", "convs.1", "convs.2"]
        for report in reports:
            assert report.layer == name.split("-")[0]
            assert report.drop_variance_share + report.add_variance_share == pytest.approx(1.0)
            assert list(report.factor_quantiles) == sorted(report.factor_quantiles)
            assert report.interchange > 0.0
            json.dumps(report.asdict(), allow_nan=False)

    def test_expected_edges_are_the_mean_of_sampled_views(self):
        """Kept and added edges over 1,000 views: z-test at |z| < 5, false alarm 1.2e-6."""
        report = explained()[0]
        generator = torch.Generator().manual_seed(0)
        views = [rade.sample_view(GRAPH, rade.Rates(report.p, report.q), generator) for _ in range(1000)]
        kept, added = ([float(view.kept.sum()) / 2 for view in views], [view.added.size / 2 for view in views])
        for expected, counts in ((report.expected_kept, kept), (report.expected_added, added)):
            sample = torch.tensor(counts)
            assert abs(float(sample.mean()) - expected) < 5 * float(sample.std()) / len(views) ** 0.5

    def test_correction_factors(self):
        """Sums: 1/(1−p) on every edge. GCN: different between degrees. Attention: the share above the cap."""
        assert explained("GINConv", rule=rade.GradNorm(p=0.2))[0].factor_quantiles == pytest.approx((1.25,) * 5)
        gcn = explained("GCNConv")[0].factor_quantiles
        assert gcn[0] < gcn[4]
        capped = explained("GATConv", correction=rade.Correction(cap=1.5))[0]
        assert capped.clipped_share > 0.5
        assert capped.factor_quantiles[4] == pytest.approx(1.5)
        assert explained("GATConv", correction=rade.Correction(cap="none"))[0].clipped_share == 0.0

    @pytest.mark.parametrize("variant", ["of", "ofs"])
    def test_variance_shares_of_a_sum(self, variant):
        """Closed form: p/(1−p) Σ_edges m² against q(1−q) Σ_nonedges (m − μ)², m the layer's messages."""
        net = seeded(lambda: Net(LAYERS["GINConv"], layers=1))
        report = rade.RADE(net, variant, rule=rade.GradNorm(p=0.3, rho=0.8)).explain(X, EDGES)[0]
        m = (X @ net.convs[0].nn.weight.t()).detach()
        edges = torch.zeros(NODES, NODES)
        edges[EDGES[1], EDGES[0]] = 1.0
        others = 1.0 - edges - torch.eye(NODES)
        centre = others @ m / others.sum(1, keepdim=True) if variant == "of" else torch.zeros_like(m)
        apart = (others[..., None] * (m - centre[:, None]).square()).sum((1, 2))
        along = (edges @ m.square()).sum(1)
        drop, add = 0.3 / 0.7 * along.sum(), report.q * (1 - report.q) * apart.sum()
        assert report.add_variance_share == pytest.approx(float(add / (drop + add)), rel=1e-4)
        ratio = (apart / along)[along > 0]
        assert report.interchange == pytest.approx(float(ratio.std() / ratio.mean()), rel=1e-3)

    def test_shares_where_a_rate_is_off(self):
        assert explained(rule=rade.GradNorm(p=0.0))[0].add_variance_share == 1.0
        assert explained(rule=rade.GradNorm(rho=0.0))[0].drop_variance_share == 1.0
        still = explained(rule=rade.Constant(p=0.0, rho=0.0))[0]
        assert (still.drop_variance_share, still.add_variance_share) == (0.0, 0.0)

    def test_explaining_changes_nothing(self):
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
        report = models[0].explain(X, EDGES)[0]
        assert (report.p, report.q) == (models[0].rates.p, models[0].rates.q)

    def test_numbers_print_to_four_digits_and_graphs_may_have_no_edges(self):
        report = explained(rule=rade.GradNorm(p=1 / 3))[0]
        assert "p=0.3333, q=" in str([report])
        assert report.p == 1 / 3
        none = adapting(seeded(lambda: Net(LAYERS["GCNConv"]))).explain(X, EDGES[:, :0])[0]
        assert (none.expected_kept, none.factor_quantiles, none.interchange) == (0.0, (), 0.0)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = SAGEConv(8, 6, aggr="sum"), nn.Linear(6, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.head(global_add_pool(self.conv(x, edge_index), batch))


class Bent(nn.Module):
    """Two layers side by side: which part of the head belongs to the last one cannot be told."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = GCNConv(8, 4), GCNConv(4, 4), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = self.one(x, edge_index).relu()
        return self.head(torch.cat([first, self.two(first, edge_index)], 1))


class TestUncertainty:
    @pytest.mark.parametrize("layer", ["SAGEConv-sum", "GINConv", "GraphConv"])
    @pytest.mark.parametrize("variant", ["of", "ofs"])
    def test_one_layer_has_the_closed_form(self, layer, variant):
        """Logits linear in one sum: 1,000 views give each deviation to 2.2 % (one standard error)."""
        found = model_of(seeded(lambda: LAYERS[layer](8, 3)), variant).uncertainty(X, EDGES, views=1000)
        assert found.note == ""
        torch.testing.assert_close(found.std, found.sampled_std, rtol=0.12, atol=1e-6)

    def test_shares_are_those_of_the_views(self):
        """The same generator, the views drawn by hand; looking changes nothing."""
        model = model_of(seeded(lambda: Net(LAYERS["GCNConv"])))
        model.wrapped.head.train()
        found, again = (model.uncertainty(X, EDGES, views=20) for _ in range(2))
        assert torch.equal(found.flips, again.flips)
        assert model.wrapped.head.training
        with torch.no_grad():
            clean = model(X, EDGES)
            seen = torch.stack([sampled(model._context, lambda: model.wrapped(X, EDGES)) for _ in range(20)])
        torch.testing.assert_close(found.logits, clean)
        torch.testing.assert_close(found.flips, (seen.argmax(2) != clean.argmax(1)).float().mean(0))
        torch.testing.assert_close(found.sampled_std, seen.std(0), rtol=1e-4, atol=1e-6)
        shares = found.flips[found.fragile]
        assert bool((shares[:-1] >= shares[1:]).all())
        assert str(found).startswith("30 predictions, 20 views: ")

    def test_without_noise_nothing_changes(self):
        found = model_of(seeded(lambda: Net(LAYERS["GCNConv"]))).uncertainty(X, EDGES, views=3, rates=rade.Rates(0, 0))
        assert float(found.flips.max()) == 0
        assert float(found.std.max()) < 1e-3  # the root of rounding
        assert float(found.sampled_std.max()) < 1e-6

    def test_graphs(self):
        """Pooled logits, linear in one aggregation."""
        batch = torch.arange(NODES) // 10
        inside = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]
        model = rade.RADE(seeded(Pooled), readout=rade.Readout(pool="sum"), **RATES).train()
        model(X, inside, batch)
        found = model.eval().uncertainty(X, inside, batch, views=1000)
        assert found.flips.shape == (3,)
        torch.testing.assert_close(found.std, found.sampled_std, rtol=0.12, atol=1e-6)

    @pytest.mark.parametrize("task", ["binary", "multilabel", "regression"])
    def test_sigmoids_and_regression(self, task):
        outputs = 1 if task == "binary" else 2
        model = model_of(seeded(lambda: Net(LAYERS["SAGEConv"], classes=outputs)), readout=rade.Readout(task=task))
        found = model.uncertainty(X, EDGES, views=16)
        with torch.no_grad():
            seen = torch.stack([sampled(model._context, lambda: model.wrapped(X, EDGES)) for _ in range(16)])
        if task == "regression":
            assert bool(found.flips.isnan().all())
        else:
            torch.testing.assert_close(found.flips, ((seen > 0) != (found.logits > 0)).any(2).float().mean(0))

    def test_without_a_closed_form_the_sampled_one_stands_in_and_is_told(self):
        found = model_of(seeded(Bent)).uncertainty(X, EDGES, views=8)
        assert "cannot tell the linear head" in found.note
        assert torch.equal(found.std, found.sampled_std)
        with pytest.raises(ValueError, match="at least 2 views, got views = 1"):
            model_of(seeded(Bent)).uncertainty(X, EDGES, views=1)
