"""What was silently wrong is now said, once, or refused before the rates move."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
    nll_loss,
)
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GraphConv

import rade
from adapting import adapting
from rade.wrapper.warn import looks_like_a_batch
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 40
X, EDGES = normal(NODES, 8), random_edges(NODES, 120)
LABELS = torch.arange(NODES) % 3


def batch_of(count: int = 5) -> Batch:
    return Batch.from_data_list(
        [Data(x=normal(8, 8, seed=k), edge_index=random_edges(8, 20, seed=k)) for k in range(count)]
    )


def wrapped(**options: Any) -> rade.RADE:
    return adapting(seeded(lambda: Net(LAYERS["GCNConv"])), **options)


def test_a_batch_without_its_vector_is_noticed_once():
    data = batch_of()
    model = wrapped().train()
    with pytest.warns(UserWarning, match=r"looks like a batch: 5 blocks.*argument named batch"):
        model(data.x, data.edge_index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(data.x, data.edge_index)
        wrapped().train()(X, EDGES)


def test_what_looks_like_a_batch():
    shuffled = torch.randperm(40, generator=torch.Generator().manual_seed(0))[batch_of().edge_index]
    assert looks_like_a_batch(rade.Graph.from_edge_index(batch_of().edge_index, 40))
    assert not looks_like_a_batch(rade.Graph.from_edge_index(shuffled, 40))
    assert not looks_like_a_batch(rade.Graph.from_edge_index(EDGES, NODES))
    assert not looks_like_a_batch(rade.Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 40))


def test_a_graph_of_the_models_own_is_drawn_from_without_a_word():
    """Views belong to the edges that a layer gets, wherever they come from."""

    class Own(Net):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return super().forward(x, EDGES)

    model = rade.RADE(Own(LAYERS["GCNConv"])).train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not torch.equal(model(X, EDGES), model(X, EDGES))


LOSSES = {
    "regression": lambda out: mse_loss(out, normal(NODES, 3, seed=5)),
    "sigmoid": lambda out: binary_cross_entropy_with_logits(out, (normal(NODES, 3, seed=5) > 0).float()),
    "embedding": lambda out: -(out[EDGES[0]] * out[EDGES[1]]).sum(-1).sigmoid().log().mean(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_outputs_that_are_no_class_logits_need_a_task(name):
    model = wrapped()
    LOSSES[name](model.train()(X, EDGES)).backward()
    with pytest.warns(UserWarning, match=r"does not treat the model's outputs as class logits.*task='multiclass'"):
        model.adapt(X, EDGES)


@pytest.mark.parametrize(
    "loss",
    [
        lambda out: cross_entropy(out[:5], LABELS[:5]),
        lambda out: cross_entropy(out, LABELS, weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1) * 1024,
        lambda out: torch.nn.functional.multi_margin_loss(out, LABELS),
    ],
)
def test_losses_of_class_logits_pass(loss):
    model = wrapped()
    loss(model.train()(X, EDGES)).backward()
    model.adapt()
    assert int(model.rate_state.steps) == 1


def test_log_probabilities_pass_and_probabilities_do_not():
    class Ends(Net):
        end = staticmethod(torch.log_softmax)

        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return self.end(super().forward(x, edge_index), 1)

    model = adapting(Ends(LAYERS["GCNConv"]))
    nll_loss(model.train()(X, EDGES), LABELS).backward()
    model.adapt()

    class Softmax(Ends):
        end = staticmethod(torch.softmax)

    model = adapting(Softmax(LAYERS["GCNConv"]), readout=rade.Readout(task="multiclass"))
    nll_loss(model.train()(X, EDGES).log(), LABELS).backward()
    with pytest.raises(ValueError, match=r"outputs are probabilities.*log_softmax"):
        model.adapt()


def test_probabilities_of_a_sigmoid_are_noticed():
    class Sigmoid(Net):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return super().forward(x, edge_index).sigmoid()

    model = adapting(Sigmoid(LAYERS["GCNConv"]), readout=rade.Readout(task="multilabel"))

    def step() -> None:
        binary_cross_entropy(model.train()(X, EDGES), (normal(NODES, 3) > 0).float()).backward()
        model.adapt()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(9):
            step()
    with pytest.warns(UserWarning, match=r"as after a sigmoid.*return logits"):
        step()


def test_untrained_logits_between_0_and_1_are_no_probabilities():
    class Lifted(Net):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return 0.01 * super().forward(x, edge_index) + self.lift

    net = Lifted(LAYERS["GCNConv"])
    net.lift = 0.5
    model = adapting(net, readout=rade.Readout(task="multilabel"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for lift in [0.5] * 9 + [-0.5] + [0.5] * 3:
            net.lift = lift
            binary_cross_entropy_with_logits(model.train()(X, EDGES), (normal(NODES, 3) > 0).float()).backward()
            model.adapt()


def test_few_labels_and_additions():
    x, edges = normal(200, 8), random_edges(200, 400)
    for rho, expected in ((0.5, 1), (0.0, 0)):
        model = wrapped(rule=rade.GradNorm(rho=rho))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                cross_entropy(model.train()(x, edges)[:9], LABELS[:9]).backward()
                model.adapt()
        assert sum("only 4.5% of the rows are labelled" in str(one.message) for one in said) == expected


@pytest.mark.parametrize(("rho", "labelled", "expected"), [(0.5, 9, 1), (0.0, 9, 0), (0.5, 40, 0)])
def test_few_labels_and_constant_additions(rho, labelled, expected):
    """Said by the second training call, which knows what the first loss reached."""
    x, edges = normal(200, 8), random_edges(200, 400)
    model = wrapped(rule=rade.Constant(0.2, rho))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            cross_entropy(model.train()(x, edges)[:labelled], LABELS[torch.arange(labelled) % 9]).backward()
    assert sum("of the rows are labelled" in str(one.message) for one in said) == expected


def test_batches_of_other_nodes_tell_nothing_of_labels():
    model = wrapped(rule=rade.Constant(0.2, 0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            cross_entropy(model.train()(normal(200, 8), random_edges(200, 400, seed=seed))[:9], LABELS[:9]).backward()


def test_rates_that_nobody_moves_are_noticed():
    model = adapting(Net(LAYERS["GCNConv"]))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(55):
            cross_entropy(model.train()(X, EDGES), LABELS).backward()
    found = [one for one in said if "and no rate step" in str(one.message)]
    assert len(found) == 1
    assert "GradNorm moves the rates in model.adapt() after every step" in str(found[0].message)
    assert found[0].filename == __file__  # where the user called the model
    for _ in range(2):
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        model.adapt()
    assert model._meeting.warnings._unfollowed == 0


def test_batches_may_wait_an_epoch_for_their_rate_step(monkeypatch):
    model = adapting(Net(LAYERS["GCNConv"]))
    batches = [random_edges(len(X), 30, seed=seed) for seed in range(2)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in range(60):
            cross_entropy(model.train()(X, batches[step % 2]), LABELS).backward()
        assert not [one for one in said if "and no rate step" in str(one.message)]
        monkeypatch.setattr("rade.wrapper.warn.LONG_EPOCH", 62)
        for step in range(4):
            cross_entropy(model.train()(X, batches[step % 2]), LABELS).backward()
    assert len([one for one in said if "62 training calls and no rate step" in str(one.message)]) == 1


def test_regression_has_no_classes_to_doubt():
    model = wrapped(readout=rade.Readout(task="regression"), rule=rade.NoiseRatio())
    mse_loss(model.train()(X, EDGES), normal(NODES, 3, seed=5)).backward()
    before = model.rates.p
    model.adapt()
    assert model.rates.p != before


def test_any_loss_has_its_curvature_by_differentiation():
    """Cross-entropy through `loss=` takes the same rate steps as the closed form; a smoothed one takes others."""

    def steps(readout: rade.Readout) -> list[float]:
        model = wrapped(readout=readout, generator=torch.Generator().manual_seed(0))
        for _ in range(3):
            model.zero_grad()
            cross_entropy(model.train()(X, EDGES), LABELS).backward()
            model.adapt()
        return [float(value) for value in model.rate_state.first]

    closed = steps(rade.Readout(task="multiclass"))
    found = steps(rade.Readout(loss=lambda logits, rows: cross_entropy(logits, LABELS[rows], reduction="sum")))
    weight = torch.tensor([1.0, 5.0, 9.0])
    other = steps(rade.Readout(loss=lambda out, rows: cross_entropy(out, LABELS[rows], weight, reduction="sum")))
    torch.testing.assert_close(torch.tensor(found), torch.tensor(closed), rtol=1e-4, atol=1e-6)
    assert abs(other[0] - closed[0]) > 1e-3 * abs(closed[0])
    model = wrapped(readout=rade.Readout(loss=lambda out, rows: out.sum(1)))
    cross_entropy(model.train()(X, EDGES), LABELS).backward()
    with pytest.raises(ValueError, match="must return the sum of the rows' losses"):
        model.adapt()


class Weighs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GraphConv(8, 3)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor) -> Tensor:
        return self.conv(x, edge_index, edge_weight)


def test_added_edges_weigh_what_edges_do_on_average():
    """Weights of 0.01: additions do not drown the signal, unless asked to."""
    weight = torch.full((EDGES.shape[1],), 0.01)
    spread = {}
    for added in (None, 1.0):
        model = rade.RADE(seeded(Weighs), rule=rade.Constant(0.0, 1.0), generator=torch.Generator().manual_seed(0))
        model.conv.added_weight = added
        with torch.no_grad():
            seen = torch.stack([model.train()(X, EDGES, weight) for _ in range(50)])
        spread[added] = float(seen.std(0).mean())
    assert spread[1.0] == pytest.approx(100 * spread[None], rel=1e-3)
    with pytest.raises(ValueError, match=r"one number for each of the \d+ entries of edge_index, got \[\d+, 2\]"):
        model(X, EDGES, weight[:, None].expand(-1, 2))


def test_additions_per_node_follow_to_a_graph_of_another_size():
    large_x, large = normal(10 * NODES, 8, seed=1), random_edges(10 * NODES, 1200, seed=1)
    model = rade.RADE(seeded(lambda: GCNConv(8, 3)), "ofs", rule=rade.Constant(0.5, 1.0))
    model.train()(X, EDGES)
    as_many = rade.Expected(rates=model.rates.scaled(0.1))
    torch.testing.assert_close(model.eval()(large_x, large), model.by(as_many)(large_x, large))


def two_graphs() -> rade.Graph:
    batch = torch.arange(2).repeat_interleave(NODES)
    return rade.Graph.from_edge_index(torch.cat([EDGES, EDGES + NODES], 1), 2 * NODES, batch)


@pytest.mark.parametrize("single_first", [True, False])
def test_after_training_on_batches_a_graph_gets_as_much_alone_as_in_a_batch(single_first):
    """The last batch of an epoch may hold one graph."""
    model = rade.RADE(seeded(lambda: GCNConv(8, 3)), "ofs", rule=rade.Constant(0.5, 1.0))
    x, small = normal(12, 8), rade.Graph.from_edge_index(random_edges(12, 20), 12)
    calls = [(x, small), (torch.cat([X, X]), two_graphs())]
    for features, graph in calls if single_first else reversed(calls):
        model.train()(features, graph)
    alone = model.eval()(X, rade.Graph.from_edge_index(EDGES, NODES))
    together = model(torch.cat([X, X]), two_graphs())
    torch.testing.assert_close(alone, together[:NODES])


def test_warnings_do_not_travel():
    model = wrapped()
    model.train()(X, EDGES)
    assert pickle.loads(pickle.dumps(model))._meeting.warnings._said == set()


def test_a_first_graph_of_another_density_is_told():
    model = wrapped().train()
    triangle = torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1]])
    model(normal(3, 8), triangle)
    with pytest.warns(UserWarning, match="follows from the density that was given, or from that of the first"):
        model(normal(200, 8), random_edges(200, 300))
