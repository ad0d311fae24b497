"""Faults that users met with models and loops of their own; each of them once, through the public names alone."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.optim.swa_utils import AveragedModel

import rade
from zoo import CLASSES, EDGES, FEATURES, LABELS, NODES, Net, X, adapting, normal, seeded, training_step, wrapped


class Lifted(nn.Module):
    """A GCN that knows the labels: with a large lift its loss vanishes, or is all rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.lift = seeded(lambda: pyg.GCN(FEATURES, 8, 2, CLASSES)), 0.0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.net(x, edge_index) + self.lift * nn.functional.one_hot(LABELS, CLASSES)


class TestNothingStopsALateStep:
    """A rate step that went well is never followed by one that stops the training."""

    @pytest.mark.parametrize("lift", [10.0, 15.0])
    def test_a_loss_that_has_nearly_vanished(self, lift):
        """Gradients of 1e-7 are rounding; their sum over classes is no smaller than they are."""
        model = adapting(Lifted())
        model.lift = lift
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

        model = adapting(Lifted(), readout=rade.Readout(loss=loss))
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        model.adapt()
        model.lift = 200.0
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


class TestState:
    def test_the_mean_of_epochs_loads(self):
        """A state is tensors: whoever clones them, moves them or averages them in double precision may load them."""
        model = wrapped().train()
        model(X, EDGES)
        state = {key: value.clone() for key, value in model.state_dict().items()}
        with torch.no_grad():
            next(model.parameters()).zero_()
        other = {key: value.clone() for key, value in model.state_dict().items()}
        mean = {key: (state[key].double() + other[key].double()) / 2 for key in state}
        model.load_state_dict(mean)
        torch.testing.assert_close(model.wrapped.convs[0].bias.double(), mean["wrapped.convs.0.bias"])

    @pytest.mark.parametrize(("one", "other"), [("ofs", "of"), ("of", "ofs")])
    def test_a_state_of_the_other_variant_is_refused(self, one, other):
        saved, model = wrapped(None, one), wrapped(None, other)
        with torch.no_grad():
            saved.wrapped.convs[0].bias.fill_(1.0)
        with pytest.raises(RuntimeError, match=rf"variant '{one}'.*'{other}'.*RADE\(model, '{one}'\)"):
            model.load_state_dict(saved.state_dict())
        assert not model.wrapped.convs[0].bias.any()  # nothing was loaded

    def test_a_deep_copy_draws_other_views_and_does_not_change_what_the_model_draws(self):
        model, alone = wrapped().train(), wrapped().train()
        copies = [model, copy.deepcopy(model), copy.deepcopy(model), AveragedModel(model).module]
        drawn = [one.train()(X, EDGES) for one in copies]
        assert torch.equal(drawn[0], alone(X, EDGES))
        assert not any(torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
        assert torch.equal(copies[1].eval()(X, EDGES), model.eval()(X, EDGES))

    def test_reverting_warns_where_predictions_change(self):
        model = wrapped(None, "ofs").train()
        model(X, EDGES)
        with pytest.warns(UserWarning, match=r"predictions change.*model\.eval\(\)"):
            rade.revert(model)
        for still in (wrapped(None, "of"), wrapped(None, "ofs", rule=rade.Constant(0.2, 0.0))):
            still.train()(X, EDGES)
            rade.revert(still)


class Metric(nn.Module):
    """Like those of torchmetrics: comparing two of them makes a third."""

    def __eq__(self, other: object) -> nn.Module:
        return self

    __hash__ = nn.Module.__hash__


def test_a_metric_is_no_layer():
    """Two of them beside the layers, as people write a LightningModule."""
    net = Net(pyg.GCNConv)
    net.train_acc, net.val_acc = Metric(), Metric()
    assert rade.check(net, X, EDGES).works
    model = rade.RADE(net).train()
    assert not torch.equal(model(X, EDGES), model(X, EDGES))


class Chosen(Net):
    """Returns the rows of a mask, and their classes."""

    def forward(self, x: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = super().forward(x, EDGES)[batch > 0]
        return found, found.argmax(1)


def test_no_rows_classes_and_a_batch_vector_in_the_second_place():
    model = rade.RADE(Chosen(pyg.GCNConv), rule=rade.Constant(0.5, 0.5)).train()
    model(X, torch.zeros(len(X), dtype=torch.long))[0].sum().backward()  # no row at all
    with pytest.warns(UserWarning, match="edges between the graphs"):
        model(X, torch.arange(len(X)))
    logits, classes = model.eval().by(rade.Ensemble(4))(X, torch.ones(len(X), dtype=torch.long))
    assert logits.is_floating_point()
    assert classes.dtype == torch.long
