"""`RADE(model)`: views in training, the expected aggregation at inference, rate steps, reuse of graphs."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from rade.control import CleanPass, pooled_variance, regulariser, variance
from rade.control.gradients import clean_gradient_norm
from rade.wrapper.clean import clean_pass
from rade.wrapper.running import Running
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch_geometric.nn import GCNConv, GINConv

import rade
from adapting import adapting
from looping import looped
from rade.moments.base import Sent
from zoo import ATTENTION, LAYERS, GraphNet, Net, normal, random_edges, seeded, training_step

NODES, CLASSES = 30, 3
X, EDGES = normal(NODES, 8), random_edges(NODES, 60)
LABELS = torch.arange(NODES) % CLASSES
EVERY = {**LAYERS, **ATTENTION}


def wrapped(name: str = "GCNConv", variant: str = "of", seed: int = 0, **options: Any) -> rade.RADE:
    net = seeded(lambda: Net(EVERY[name]))
    return adapting(net, variant, generator=torch.Generator().manual_seed(seed), **options)


def views_seen(model: rade.RADE, *args: Any) -> list[Any]:
    """What travelled as edge_index to each convolution."""
    seen: list[Any] = []
    hooks = [conv.register_forward_pre_hook(lambda _, a: seen.append(a[1])) for conv in model.wrapped.convs]
    model(*args)
    for hook in hooks:
        hook.remove()
    return seen


def test_a_shared_view_is_one_for_all_layers_and_new_on_every_call():
    model = wrapped(views=rade.Views(shared=True)).train()
    first, second = views_seen(model, X, EDGES), views_seen(model, X, EDGES)
    assert first[0] is first[1]
    assert not torch.equal(first[0].kept, second[0].kept)
    assert not torch.equal(first[0].added.source, second[0].added.source)


def test_weights_balance_uneven_parts_of_a_batch():
    """Labelled rows split 20 to 10 between two processes: the mean of both regularisers is that of all rows."""
    model, rows = wrapped(density=0.2), torch.arange(NODES)
    rates = rade.Rates(0.3, 0.1)
    whole, clean = regulariser_of(model, rade.Labelled(rows), X, EDGES)
    weighted = [rade.Labelled(part, weight=len(part) * 2 / NODES) for part in rows.split(20)]
    parts = [regulariser_of(model, labelled, X, EDGES)[0] for labelled in weighted]
    torch.testing.assert_close(sum(part(rates) for part in parts) / 2, whole(rates))
    parameters = list(model.wrapped.parameters())

    def norm(weight: float) -> float:
        labelled = rade.Labelled(rows, loss=lambda z: cross_entropy(z[rows], LABELS[rows]), weight=weight)
        return float(clean_gradient_norm(clean.logits, labelled, parameters))

    assert norm(0.5) == pytest.approx(0.5 * norm(1.0))


def test_layers_have_views_of_their_own():
    """The default: an independent view per layer, found again by its layer."""
    model = wrapped().train()
    adjacency = views_seen(model, X, EDGES)[0]
    first, second = (adjacency.for_layer((conv, 0)) for conv in model.wrapped.convs)
    assert not torch.equal(first.kept, second.kept)
    assert adjacency.for_layer((model.wrapped.convs[0], 0)) is first
    assert not torch.equal(views_seen(model, X, EDGES)[0].for_layer((model.wrapped.convs[0], 0)).kept, first.kept)


@looped("variant", ["of", "ofs", "none"])
@pytest.mark.parametrize("name", EVERY)
def test_one_seed_one_stream_of_views(name, variant):
    outputs = [[wrapped(name, variant, seed).train()(X, EDGES) for seed in (1, 2)] for _ in range(2)]
    assert torch.equal(outputs[0][0], outputs[1][0])
    assert not torch.equal(outputs[0][0], outputs[0][1])


def test_default_generator_follows_the_seed_of_torch():
    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return adapting(seeded(lambda: Net(GCNConv))).train()(X, EDGES)

    with torch.random.fork_rng():
        assert torch.equal(draw(1), draw(1))
        assert not torch.equal(draw(1), draw(2))


@pytest.mark.parametrize("name", EVERY)
def test_without_perturbation_all_modes_are_the_plain_model(name):
    """p = ρ = 0: training, evaluation, RADE-OF and RADE-OFS coincide."""
    for variant in ("of", "ofs", "none"):
        model = wrapped(name, variant, rule=rade.GradNorm(p=0.0, rho=0.0))
        clean = model.eval()(X, rade.Graph.from_edge_index(EDGES, NODES))
        torch.testing.assert_close(model.train()(X, EDGES), clean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_inference_of_ofs_keeps_the_expected_additions(name):
    """RADE-OF and uncorrected views are clean at inference; RADE-OFS is not, and draws nothing."""
    of, none, ofs = (wrapped(name, variant, density=0.1).eval() for variant in ("of", "none", "ofs"))
    assert torch.equal(of(X, EDGES), none(X, EDGES))
    assert not torch.allclose(of(X, EDGES), ofs(X, EDGES))
    assert torch.equal(ofs(X, EDGES), ofs(X, EDGES))


def test_ensemble_averages_sampled_views():
    """Mean of K views, the same stream as K training calls; more views come closer to the expectation."""
    options = {"rule": rade.GradNorm(p=0.3), "density": 0.1}
    ensemble = wrapped("GINConv", inference=rade.Ensemble(size=5), **options).eval()
    single = wrapped("GINConv", **options).train()
    torch.testing.assert_close(ensemble(X, EDGES), torch.stack([single(X, EDGES) for _ in range(5)]).mean(0))
    one_layer = seeded(lambda: Net(LAYERS["GINConv"], layers=1))
    one_layer.forward = lambda x, edge_index: one_layer.convs[0](x, edge_index)  # linear: the means agree exactly
    target = adapting(one_layer, density=0.1).eval()(X, EDGES)
    errors = []
    for size in (1, 16, 256):
        generator = torch.Generator().manual_seed(0)
        model = adapting(one_layer, density=0.1, inference=rade.Ensemble(size), generator=generator).eval()
        errors.append(float(((model(X, EDGES) - target).norm() / target.norm()).detach()))
    print("distance of the ensemble from the expectation, 1, 16, 256 views:", [round(e, 3) for e in errors])
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_density_is_that_of_the_first_training_graph():
    """Not of a graph that was only evaluated or explained; stored once."""
    model = wrapped(rule=rade.GradNorm(rho=0.4))
    small = random_edges(10, 12, seed=1)
    model.eval()(X[:10], small)
    model.explain(X[:10], small)
    assert torch.isnan(model.controller.density)
    assert model.rates.q == 0.0
    graph = rade.Graph.from_edge_index(EDGES, NODES)
    model.train()(X, EDGES)
    assert model.rates.q == pytest.approx(0.4 * graph.density)
    model(X[:10], small)
    assert model.rates.q == pytest.approx(0.4 * graph.density)


def test_density_of_a_batch_is_pooled():
    batch = torch.cat([torch.zeros(20), torch.ones(10)]).long()
    edges = torch.cat([random_edges(20, 40), random_edges(10, 12, seed=1) + 20], dim=1)
    model = adapting(seeded(lambda: GraphNet(GCNConv)), readout=rade.Readout(pool="sum")).train()
    model(X, edges, batch)
    assert float(model.controller.density) == pytest.approx(edges.shape[1] / (20 * 19 + 10 * 9))


@looped("variant", ["of", "ofs"])
@pytest.mark.parametrize("name", EVERY)
def test_adapt_takes_one_step_and_returns_the_clean_logits(name, variant):
    model = wrapped(name, variant)
    training_step(model, X, EDGES, labels=LABELS)
    values, gradients = zip(*[(p.detach().clone(), p.grad.clone()) for p in model.parameters()])
    logits = model.adapt(X, EDGES, labelled=torch.arange(10))
    clean = model.wrapped.eval()(X, rade.Graph.from_edge_index(EDGES, NODES)).detach()
    torch.testing.assert_close(logits, clean)
    assert abs(model.rates.p - 0.5) == pytest.approx(1e-3, rel=1e-3)  # Adam's first step is its step size
    assert all(torch.equal(a, b) for a, b in zip(values, model.parameters()))
    assert all(torch.equal(a, b.grad) for a, b in zip(gradients, model.parameters()))
    assert int(model.controller.steps) == 1


def test_adapt_with_constant_rates_is_a_clean_forward_pass():
    """No gradients are needed, nothing moves."""
    model = wrapped(rule=rade.Constant())
    logits = model.train().adapt(X, EDGES)
    torch.testing.assert_close(logits, model.eval()(X, EDGES).detach())
    assert (float(model.controller.p), float(model.controller.rho)) == (0.2, 0.2)


def test_adapt_gives_every_layer_its_own_mode_back():
    """A frozen batch norm stays frozen; running statistics do not move."""

    class Normed(Net):
        def __init__(self) -> None:
            super().__init__(GCNConv)
            self.norm = torch.nn.BatchNorm1d(8)

        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return super().forward(self.norm(x), edge_index)

    model = adapting(seeded(Normed))
    training_step(model, X, EDGES, labels=LABELS)
    model.wrapped.norm.eval()
    mean = model.wrapped.norm.running_mean.clone()
    model.adapt(X, EDGES)
    model.explain(X, EDGES)
    assert model.training
    assert model.wrapped.head.training
    assert not model.wrapped.norm.training
    assert torch.equal(model.wrapped.norm.running_mean, mean)


def test_adapt_works_where_gradients_are_off():
    """The same step as with them."""
    slopes = []
    for enabled in (True, False):
        model = wrapped()
        training_step(model, X, EDGES, labels=LABELS)
        with torch.set_grad_enabled(enabled):
            model.adapt(X, EDGES)
        assert int(model.controller.steps) == 1
        slopes.append(model.controller.first.clone())
    assert torch.equal(*slopes)
    assert float(slopes[0][0]) != 0


def test_labelled_rows_may_be_ids_or_a_mask():
    """The same step; all nodes by default."""
    chosen = torch.zeros(NODES, dtype=torch.bool)
    chosen[::3] = True
    slopes = []
    for rows in (chosen, chosen.nonzero().squeeze(1), None, rade.Labelled(torch.arange(NODES))):
        model = wrapped()
        training_step(model, X, EDGES, labels=LABELS)
        model.adapt(X, EDGES, labelled=rows)
        slopes.append(model.controller.first.clone())
    assert torch.equal(slopes[0], slopes[1])
    assert torch.equal(slopes[2], slopes[3])
    assert not torch.equal(slopes[0], slopes[2])


def regulariser_of(
    model: rade.RADE, labelled: rade.Labelled, x: Tensor, edge_index: Tensor, *batch: Tensor
) -> tuple[Any, CleanPass]:
    """R as `adapt` builds it, and the clean pass it is built of."""
    graph = rade.Graph.from_edge_index(edge_index, len(x), *batch)
    clean = clean_pass(Running(model.wrapped, model._call((x, graph, *batch), {})), graph, model.readout)
    parameters = list(model.wrapped.parameters())
    return regulariser(clean, model.readout, labelled, model.law(graph), parameters), clean


@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GraphConv"])
def test_messages_of_the_last_convolution_reach_the_logits(name):
    """R by hand: the last convolution's messages through the head, activations dropped."""
    model = wrapped(name, density=0.15)
    found, clean = regulariser_of(model, rade.Labelled(LABELS.new_tensor([1, 4, 7])), X, EDGES)
    net, graph = model.wrapped, rade.Graph.from_edge_index(EDGES, NODES)
    conv = net.convs[1]
    hidden = net.convs[0](X, graph).relu().detach()
    lin = {"GINConv": lambda: conv.nn, "SAGEConv": lambda: conv.lin_l, "GraphConv": lambda: conv.lin_rel}
    weight = lin.get(name, lambda: conv.lin)().weight
    messages = hidden @ (net.head.weight @ weight).t()
    noise = variance(Sent(conv.coefficients(graph, hidden), messages), model.law(graph)).total[[1, 4, 7]]
    probability = clean.logits[[1, 4, 7]].softmax(-1)
    expected = (probability * (1 - probability) * noise).sum() / 6
    torch.testing.assert_close(found(model.rates), expected)


@pytest.mark.parametrize("rule", ["exact", "paper"])
@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_regulariser_of_pooled_logits(pool, rule):
    """R of two graphs by hand, from the pooled variance of the last messages."""
    batch = torch.cat([torch.zeros(20), torch.ones(10)]).long()
    edges = torch.cat([random_edges(20, 40), random_edges(10, 12, seed=1) + 20], dim=1)
    net = seeded(lambda: GraphNet(GCNConv))
    net.pool = pool
    model = adapting(net, readout=rade.Readout(pool=pool, pooling_rule=rule), density=0.2)
    found, clean = regulariser_of(model, rade.Labelled(), X, edges, batch)
    graph = rade.Graph.from_edge_index(edges, NODES, batch)
    hidden = net.convs[0](X, graph).relu().detach()
    messages = hidden @ (net.head.weight @ net.convs[1].lin.weight).t()
    sent = Sent(net.convs[1].coefficients(graph, hidden), messages)
    noise = pooled_variance(sent, model.law(graph), pool == "mean", rule == "exact").total
    probability = clean.logits.softmax(-1)
    torch.testing.assert_close(found(model.rates), (probability * (1 - probability) * noise).sum() / 4)


def test_tasks_and_missing_labels():
    """Sigmoids for binary and multi-label; unknown labels weigh nothing."""
    model = wrapped(density=0.15, readout=rade.Readout(task="multilabel"))
    known = torch.rand(NODES, CLASSES, generator=torch.Generator().manual_seed(0)) < 0.5
    whole, clean = regulariser_of(model, rade.Labelled(), X, EDGES)
    half, _ = regulariser_of(model, rade.Labelled(known=known), X, EDGES)
    rest, _ = regulariser_of(model, rade.Labelled(known=~known), X, EDGES)
    torch.testing.assert_close(whole.weight, clean.logits.sigmoid() * (1 - clean.logits.sigmoid()))
    torch.testing.assert_close(half(model.rates) + rest(model.rates), whole(model.rates))
    binary = adapting(seeded(lambda: Net(GCNConv, classes=1)), density=0.15, readout=rade.Readout(task="binary"))
    flat = binary.wrapped.forward
    one, _ = regulariser_of(binary, rade.Labelled(), X, EDGES)
    binary.wrapped.forward = lambda x, edge_index: flat(x, edge_index).squeeze(1)  # logits [n], as many write it
    other, _ = regulariser_of(binary, rade.Labelled(), X, EDGES)
    torch.testing.assert_close(one(binary.rates), other(binary.rates))


def test_binary_and_multilabel_models_adapt():
    targets = (normal(NODES, CLASSES, seed=4) > 0).float()
    model = wrapped(readout=rade.Readout(task="multilabel"))
    known = torch.rand(NODES, CLASSES, generator=torch.Generator().manual_seed(1)) < 0.7
    loss = binary_cross_entropy_with_logits(model.train()(X, EDGES)[known], targets[known])
    loss.backward()
    model.adapt(X, EDGES, labelled=rade.Labelled(known=known))
    assert int(model.controller.steps) == 1


def test_data_gradient_of_the_clean_graph():
    """G_data from the loss on the input graph, as the authors' scripts have it; no training gradient is needed."""
    model = wrapped(rule=rade.GradNorm(data_gradient="clean"), density=0.15)
    model.adapt(X, EDGES, labelled=rade.Labelled(loss=lambda logits: cross_entropy(logits, LABELS)))
    other = wrapped(density=0.15)
    cross_entropy(other.eval()(X, rade.Graph.from_edge_index(EDGES, NODES)), LABELS).backward()
    other.adapt(X, EDGES)
    torch.testing.assert_close(model.controller.first, other.controller.first)


def test_mini_batches_of_sampled_neighborhoods():
    """Labelled seeds come first in each sampled graph; every batch is a step, and the density is the data set's."""
    dataset = rade.data.csbm(nodes=300, content=rade.data.Words(50))
    data = dataset.graphs[0]
    net = seeded(lambda: Net(LAYERS["SAGEConv"], features=dataset.features, classes=dataset.classes))
    model = adapting(net, density=dataset.density)
    for batch in rade.data.neighbor_loader(data, [5, 5], 32, torch.arange(128), backend="builtin"):
        seeds = torch.arange(batch.batch_size)
        training_step(model, batch.x, batch.edge_index, labels=batch.y, index=seeds)
        assert model.adapt(batch.x, batch.edge_index, labelled=seeds).shape == (batch.num_nodes, dataset.classes)
    assert int(model.controller.steps) == 4
    assert float(model.controller.density) == dataset.density
    assert len(model._graphs) <= 1  # graphs of past batches are gone


def test_a_graph_is_built_once(monkeypatch):
    """Per edge_index tensor and batch; an in-place change is noticed; a tensor that dies takes its graph along."""
    built: list[int] = []
    build = rade.Graph.from_edge_index
    monkeypatch.setattr(rade.Graph, "from_edge_index", staticmethod(lambda *a: built.append(1) or build(*a)))
    model, edges = wrapped().train(), EDGES.clone()
    for _ in range(3):
        training_step(model, X, edges, labels=LABELS)
        model.adapt(X, edges)
        model.eval()(X, edges)
        model.explain(X, edges)
    assert len(built) == 1
    before = model(X, edges)
    last = edges[:, -1].clone()
    keep = ~((edges == last[:, None]).all(0) | (edges == last.flip(0)[:, None]).all(0))
    edges.resize_(2, int(keep.sum())).copy_(EDGES[:, keep])
    assert not torch.allclose(model(X, edges), before)
    assert len(built) == 2
    model(X[:29], edges.clone().clamp(max=28)[:, (edges < 29).all(0)])
    assert len(built) == 3
    del edges
    gc.collect()
    assert len(model._graphs) == 0


def test_a_graph_is_told_apart_by_its_batch_and_pointer():
    """The same edge_index with other graph boundaries is another graph."""

    class ByPointer(Net):
        def forward(self, x: Tensor, edge_index: Any, batch: Any = None, ptr: Any = None) -> Tensor:
            return super().forward(x, edge_index)

    edges = torch.cat([random_edges(15, 30), random_edges(15, 30, seed=1) + 15], dim=1)
    model = adapting(seeded(lambda: ByPointer(GCNConv)), "ofs", density=0.3).eval()
    one = model(X, edges)
    two = model(X, edges, torch.arange(NODES) // 15)
    assert not torch.allclose(one, two)
    assert torch.equal(model(X, edges, ptr=torch.tensor([0, 15, 30])), two)
    assert torch.equal(model(X, edges, ptr=torch.tensor([0, 30])), one)
    boundaries = torch.tensor([0, 15, 30])
    assert torch.equal(model(X, edges, ptr=boundaries), two)


def test_gradients_reach_every_parameter():
    """Attention's weights and the corrected factors included."""
    for name in EVERY:
        for variant in ("of", "ofs", "none"):
            model = wrapped(name, variant)
            training_step(model, X, EDGES, labels=LABELS)
            assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in model.parameters()), (name, variant)


@pytest.mark.parametrize("off", ["p", "rho"])
def test_drop_only_and_add_only(off):
    model = wrapped(rule=rade.GradNorm(**{off: 0.0}), views=rade.Views(shared=True)).train()
    view = views_seen(model, X, EDGES)[0]
    assert bool(view.kept.all()) == (off == "p")
    assert (view.added.size == 0) == (off == "rho")


def test_options_of_the_paper_run():
    """Delta moments, fixed counts, sampled complements, the authors' cap."""
    for options in (
        {"correction": rade.Correction(moments="delta")},
        {"views": rade.Views(shared=True, sampling="fixed")},
        {"correction": rade.Correction(complement="sampled", samples=16)},
        {"correction": rade.Correction(cap=2.0)},
        {"correction": rade.Correction(moments="monte-carlo", samples=64), "rule": rade.Constant()},
    ):
        for name in ("GCNConv", "GATConv", "GINConv"):
            model = wrapped(name, "ofs", **options)
            training_step(model, X, EDGES, labels=LABELS)
            assert torch.isfinite(model.adapt(X, EDGES)).all()
            assert torch.isfinite(model.eval()(X, EDGES)).all()


def test_gin_with_an_mlp_pushes_messages_through_all_of_it():
    """m = W_head W_2 W_1 h, batch norm by its running scale."""

    def build(i: int, o: int) -> torch.nn.Module:
        layers = torch.nn.Linear(i, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, o)
        return GINConv(torch.nn.Sequential(*layers))

    model = adapting(seeded(lambda: Net(build)), density=0.15)
    model.wrapped.convs[1].nn[1].running_var.fill_(4.0)
    found, clean = regulariser_of(model, rade.Labelled(), X, EDGES)
    net, graph = model.wrapped, rade.Graph.from_edge_index(EDGES, NODES)
    first, norm, _, second = net.convs[1].nn
    hidden = net.convs[0](X, graph).relu().detach()
    scale = norm.weight / (4.0 + norm.eps) ** 0.5
    messages = hidden @ (net.head.weight @ second.weight @ (scale[:, None] * first.weight)).t()
    noise = variance(Sent(net.convs[1].coefficients(graph, hidden), messages), model.law(graph)).total
    probability = clean.logits.softmax(-1)
    torch.testing.assert_close(found(model.rates), (probability * (1 - probability) * noise).sum() / (2 * NODES))


def test_inference_before_training_knows_its_graph():
    """RADE-OFS on a graph whose density was never seen in training takes the density of that graph."""
    before = wrapped(variant="ofs").eval()
    given = wrapped(variant="ofs", density=rade.Graph.from_edge_index(EDGES, NODES).density).eval()
    torch.testing.assert_close(before(X, EDGES), given(X, EDGES))


def test_one_logit_asks_for_the_binary_task():
    model = adapting(seeded(lambda: Net(GCNConv, classes=1))).train()
    binary_cross_entropy_with_logits(model(X, EDGES)[:, 0], (LABELS > 0).float()).backward()
    with pytest.raises(ValueError, match=r"one logit per row has no classes.*Readout\(task='binary'\)"):
        model.adapt(X, EDGES)
