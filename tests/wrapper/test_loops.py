"""Training loops with one line more, `RADE(model).follow(optimizer)`, mixed precision or any loss in them: what rate
control makes of it, or the sentence by which it refuses or warns. `tests/test_models.py` loops over many models.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, margin_ranking_loss, mse_loss, softplus
from torch.nn.utils import clip_grad_norm_
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import rade
from zoo import CLASSES, EDGES, LABELS, NODES, Ends, X, adapting, normal, seeded, training_step, wrapped


def loss_of(model: Any) -> Tensor:
    return cross_entropy(model(X, EDGES)[:20], LABELS[:20])


def plain(model: Any, optimizer: Any) -> None:
    loss_of(model).backward()
    optimizer.step()


def accumulated(model: Any, optimizer: Any) -> None:
    for _ in range(2):
        (loss_of(model) / 2).backward()
    optimizer.step()


def clipped(model: Any, optimizer: Any) -> None:
    """G_data is then the clipped norm: what the step used."""
    loss_of(model).backward()
    clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()


def looked_at(model: Any, optimizer: Any) -> None:
    """A training call without a loss, for pseudo-labels or an accuracy, may come between a loss and its gradient."""
    loss = loss_of(model)
    model(X, EDGES).detach()
    loss.backward()
    optimizer.step()


def scaled(model: Any, optimizer: Any) -> None:
    """A GradScaler takes its factor off before the step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)


@pytest.mark.parametrize("step", [plain, accumulated, clipped, looked_at, scaled])
def test_following_is_adapting_by_hand_after_every_step(step):
    found = []
    for by_hand in (False, True):
        model = adapting().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert by_hand or model.follow(optimizer) is model
        for _ in range(3):
            optimizer.zero_grad()
            (plain if by_hand and step is scaled else step)(model, optimizer)
            if by_hand:
                model.adapt(X, EDGES, labelled=torch.arange(20))
        assert int(model.rate_state.steps) == 3
        found.append(torch.stack([*model.rate_state.first, model.rate_state.p]))
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


def test_rates_move_once_for_a_step_with_a_closure_and_not_at_all_without_a_gradient():
    """LBFGS calls its closure many times; a scaler may skip a step; an evaluation leaves nothing to adapt by."""
    model = adapting().train()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.follow(optimizer)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert int(model.rate_state.steps) == 1
    model = adapting().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.follow(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(loss_of(model) * float("inf")).backward()
    scaler.step(optimizer)
    model._latest = None
    loss_of(model.eval()).backward()
    optimizer.step()
    assert int(model.rate_state.steps) == 0


def test_sparse_gradients_of_an_embedding_move_the_rates_as_dense_ones():
    class Embedded(torch.nn.Module):
        def __init__(self, sparse: bool) -> None:
            super().__init__()
            self.nodes, self.net = torch.nn.Embedding(NODES, 8, sparse=sparse), GCN(8, 6, 2, 3)

        def forward(self, ids: Tensor, edge_index: Tensor) -> Tensor:
            return self.net(self.nodes(ids), edge_index)

    found = []
    for sparse in (False, True):
        model = adapting(seeded(lambda sparse=sparse: Embedded(sparse))).train()
        cross_entropy(model(torch.arange(NODES), EDGES), LABELS).backward()
        model.adapt()
        found.append(model.rate_state.first)
    torch.testing.assert_close(*found)


def trained(kind: type, mixed: bool, inside: bool) -> tuple[rade.RADE, Tensor]:
    model = adapting(seeded(lambda: kind(8, 16, 2, 3)), "ofs")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = cross_entropy(model.train()(X, EDGES), LABELS)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed and inside):
            loss.backward()
            assert model.adapt().dtype == torch.float32
        optimizer.step()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        return model, model.eval()(X, EDGES)


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("kind", [GCN, GIN, GAT, GraphSAGE])
def test_training_under_autocast_is_that_without_it_but_for_rounding(kind, inside):
    (exact, output), (mixed, rounded) = (trained(kind, mixed, inside) for mixed in (False, True))
    assert mixed.rates.p == pytest.approx(exact.rates.p, abs=1e-4)
    assert mixed.rates.p != 0.5
    assert float((rounded.float() - output).abs().max()) < 0.05 * float(output.abs().max())


WEIGHT = torch.tensor([1.0, 2.0, 5.0])
PAIRS = torch.cat([EDGES, torch.stack([EDGES[0], EDGES[1].roll(7)])], 1)
TRUTH = torch.cat([torch.ones(EDGES.shape[1]), torch.zeros(EDGES.shape[1])])
Loss = Callable[[Tensor], Tensor]


def whole(logits: Tensor, rows: Tensor) -> Tensor:
    """Some rows in their places among all."""
    return logits.new_zeros(NODES, logits.shape[1]).index_copy(0, rows, logits)


def links(z: Tensor) -> Tensor:
    """A dot-product decoder on true and false pairs."""
    return binary_cross_entropy_with_logits((z[PAIRS[0]] * z[PAIRS[1]]).sum(1), TRUTH, reduction="sum")


def ranking(z: Tensor) -> Tensor:
    """The first half above the second, softly."""
    return softplus(z[NODES // 2 :, 0] - z[: NODES // 2, 0]).sum()


def rates_after(loss: Loss, outputs: int = 3, **options: Any) -> list[rade.Rates]:
    """Four steps of a loop that only wraps."""
    model = adapting(seeded(lambda: GCN(8, 6, 2, outputs)), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.follow(optimizer)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss(model.train()(X, EDGES)).backward()
        optimizer.step()
        found.append(model.rates)
    return found


LINKS = rade.Readout(loss=lambda z, rows: links(whole(z, rows)))
SAID = rade.Readout(loss=lambda z, rows: cross_entropy(z, LABELS[rows], WEIGHT, reduction="sum"))
SQUARED = rade.Readout(task="regression")
ADAPTS: dict[str, tuple[Loss, int, dict[str, Any]]] = {
    "weighted": (lambda z: cross_entropy(z, LABELS, WEIGHT), 3, {}),
    "smoothed": (lambda z: cross_entropy(z, LABELS, label_smoothing=0.1), 3, {}),
    "weighted, said": (lambda z: cross_entropy(z, LABELS, WEIGHT), 3, {"readout": SAID}),
    "links": (links, 3, {"readout": LINKS}),
    "links by noise ratio": (links, 3, {"readout": LINKS, "rule": rade.NoiseRatio()}),
    "ranking": (ranking, 1, {"readout": rade.Readout(loss=lambda z, rows: ranking(whole(z, rows)))}),
    "regression": (lambda z: mse_loss(z, X[:, :1]), 1, {"readout": SQUARED}),
    "regression by noise ratio": (lambda z: mse_loss(z, X[:, :1]), 1, {"readout": SQUARED, "rule": rade.NoiseRatio()}),
}


@pytest.mark.parametrize("name", ADAPTS)
def test_rates_adapt(name):
    loss, outputs, options = ADAPTS[name]
    first, *_, last = rates_after(loss, outputs, **options)
    assert 0 <= last.p < 1
    assert last.p != first.p


@pytest.mark.parametrize(("scale", "rises"), [(1e3, True), (1e-9, False)])
def test_rates_of_a_regression_follow_the_size_of_the_data_gradient(scale, rises):
    """A steep loss affords more noise, a flat one less: G_reg is balanced with G_data, and p does not run away."""
    rule = rade.GradNorm(p=0.4, lr=0.05)
    found = rates_after(lambda z: scale * mse_loss(z, X[:, :3]), readout=SQUARED, rule=rule)
    assert (found[-1].p > 0.4) is rises


@pytest.mark.parametrize("loss", [links, lambda z: z.square().mean()], ids=["links", "autoencoder"])
def test_embeddings_taken_for_classes_are_warned_of_and_work_with_constant_rates(loss):
    with pytest.warns(UserWarning, match=r"does not treat the model's outputs as class logits .*rule=rade.Constant"):
        rates_after(loss)
    assert rates_after(loss, rule=rade.Constant(0.2, 0.1))[-1].p == 0.2


@pytest.mark.parametrize("end", [lambda z: {"logits": z}, lambda z: (z.square().mean(), z)], ids=["dict", "loss first"])
def test_a_model_that_returns_no_logits_is_told_so(end):
    model = adapting(Ends(end)).train()
    optimizer = torch.optim.Adam(model.parameters())
    model.follow(optimizer)
    found = model(X, EDGES)
    (found["logits"].sum() if isinstance(found, dict) else found[0]).backward()
    with pytest.raises(ValueError, match=r"the model returned none: return them so, .*rule=rade.Constant"):
        optimizer.step()


def test_a_score_per_row_is_not_taken_for_classes():
    target = torch.ones(NODES // 2)
    with pytest.raises(ValueError, match="one logit per row has no classes"):
        rates_after(lambda z: margin_ranking_loss(z[: NODES // 2, 0], z[NODES // 2 :, 0], target), 1)


def lifted(by: float) -> Loss:
    """Logits of a model that knows the labels: with a large lift its loss vanishes, or is all rounding."""
    return lambda logits: logits + by * nn.functional.one_hot(LABELS, CLASSES)


class TestNothingStopsALateStep:
    """A rate step that went well is never followed by one that stops the training."""

    @pytest.mark.parametrize("lift", [10.0, 15.0])
    def test_a_loss_that_has_nearly_vanished(self, lift):
        """Gradients of 1e-7 are rounding; their sum over classes is no smaller than they are."""
        model = adapting(seeded(lambda: Ends(lifted(lift))))
        training_step(model, X, EDGES, labels=LABELS)
        model.adapt()

    @pytest.mark.parametrize("rule", [rade.GradNorm(), rade.NoiseRatio()], ids=lambda rule: type(rule).__name__)
    def test_a_loss_that_has_vanished(self, rule):
        """Its gradient is exactly zero: there is nothing to balance in this step, and the next may have it again."""
        model = wrapped(rule=rule).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        model.follow(optimizer)
        training_step(model, X, EDGES, labels=LABELS)
        optimizer.step()
        before = model.rates
        (0.0 * model(X, EDGES)).sum().backward()
        with pytest.warns(UserWarning, match="rates stay as they are"):
            optimizer.step()
        assert model.rates == before
        (0.0 * model(X, EDGES)).sum().backward()  # it is said once
        optimizer.step()
        training_step(model, X, EDGES, labels=LABELS)
        optimizer.step()
        assert model.rates != before

    def test_a_batch_without_labels(self):
        model = adapting()
        training_step(model, X, EDGES, labels=LABELS)
        model.adapt(X, EDGES, labelled=torch.arange(5))
        before = model.rates
        training_step(model, X, EDGES, labels=LABELS)
        with pytest.warns(UserWarning, match="at least one row"):
            logits = model.adapt(X, EDGES, labelled=torch.zeros(NODES, dtype=torch.bool))
        assert logits.shape == (NODES, CLASSES)
        assert model.rates == before

    def test_a_forward_for_logging_between_two_steps(self):
        model = adapting().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.follow(optimizer)
        cross_entropy(model(X, EDGES), LABELS).backward()
        optimizer.step()
        cross_entropy(model(X, EDGES), LABELS).backward()
        model(X, EDGES)
        with pytest.warns(UserWarning, match="received no gradient"):
            optimizer.step()

    @pytest.mark.filterwarnings("ignore")
    def test_a_loss_of_ones_own_that_has_vanished(self):
        """Its curvature is 0 wherever one looks, and so is its slope: that is no squared error."""

        def loss(logits: Tensor, rows: Tensor) -> Tensor:
            return cross_entropy(logits, LABELS[rows], reduction="sum")

        model = adapting(seeded(lambda: Ends(lifted(0.0))), readout=rade.Readout(loss=loss))
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        model.adapt()
        model.end = lifted(200.0)
        model.train()(X, EDGES).sum().backward()
        model.adapt()

    @pytest.mark.filterwarnings("ignore")
    def test_a_rule_of_ones_own_that_leaves_the_range(self):
        class Doubling(rade.Rule):
            def step(self, state, density, seen):
                return state | {"p": 2.0 * state["p"]}

        model = wrapped(rule=Doubling(p=0.3)).train()
        for _ in range(4):
            cross_entropy(model(X, EDGES), LABELS).backward()
            model.adapt()
        assert model.rates.p == 0.6

    def test_what_comes_late_is_not_doubted(self):
        model = adapting()
        for _ in range(20):
            training_step(model, X, EDGES, labels=LABELS)
            model.adapt()
        mse_loss(model(X, EDGES), normal(NODES, CLASSES, seed=5)).backward()
        model.adapt()
