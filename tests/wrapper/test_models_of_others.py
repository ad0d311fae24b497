"""Other people's models, wrapped without edits: attributes, methods, arguments and outputs are the model's.

A linear layer inside may be more than a weight. `tests/test_models.py` trains some sixty models.
"""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations, prune, spectral_norm
from torch_geometric.nn import GCN, MLP, GATConv, GCNConv, GINConv, GraphConv, SAGEConv, SGConv, TAGConv

import rade
from rade.nn.trace import Trace, evaluating, following, head_matrix
from zoo import CLASSES, EDGES, FEATURES, LABELS, LAYERS, NODES, Ends, Net, X, adapting, seeded, training_step, wrapped


def test_frozen_layers():
    """Only the head learns: rates adapt by its gradients alone."""
    net = seeded(lambda: GCN(FEATURES, 6, 2, CLASSES, jk="last"))
    net.convs.requires_grad_(False)
    model = adapting(net)
    training_step(model, X, EDGES, labels=LABELS)
    model.adapt(X, EDGES)
    assert model.rates.p != 0.5


class Merging(nn.Linear):
    """As adapters (LoRA) do: in evaluation it is one weight, in training two."""

    merged = False

    def train(self, mode: bool = True) -> nn.Module:
        self.merged = not mode
        return super().train(mode)


def test_layers_that_merge_weights_for_evaluation_stay_in_parts():
    net = seeded(lambda: Net(GCNConv))
    net.head = seeded(lambda: Merging(6, CLASSES))
    model = adapting(net)
    training_step(model, X, EDGES, labels=LABELS)
    model.adapt(X, EDGES)
    assert net.head.training
    assert not net.head.merged


class Residual(nn.Module):
    """Skips of equal width on either side of the convolution, a norm, a head."""

    def __init__(self, width: int = FEATURES) -> None:
        super().__init__()
        self.conv, self.skip, self.norm = SAGEConv(width, width), nn.Linear(width, width), nn.BatchNorm1d(width)
        self.predict = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.predict(x + self.norm(self.conv(x, edge_index) + self.skip(x)).relu())


def test_skip_connections_do_not_enter_the_head():
    """The head of the convolution is predict · batch norm, although the skip's linear layer comes in between."""
    net, trace = seeded(Residual), Trace()
    net.norm.running_var.uniform_(0.5, 2.0)
    model = adapting(net)
    with evaluating(net), model._context.using(trace, mode="clean"), following(net, trace):
        net(X, EDGES)
    expected = net.predict.weight * (net.norm.weight / (net.norm.running_var + net.norm.eps).sqrt())
    torch.testing.assert_close(head_matrix(net, trace, CLASSES, None), expected.detach())


NAMES = ("variant", "noise", "generator", "views", "rule", "correction", "readout", "density", "_global")
PRIVATE = ("_first", "_latest", "_graphs")  # names that RADE has for itself


class Crowded(nn.Module):
    """Uses names for itself that RADE's settings have, too, and methods beside forward."""

    dimension = 6

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.head = GCNConv(8, 6), GCNConv(6, 6), nn.Linear(6, 3)
        for name in (*NAMES, *PRIVATE):
            setattr(self, name, f"its own {name}")

    def encode(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.head(self.encode(x, edge_index))

    def inference(self, x: Tensor, edge_index: Any) -> Tensor:
        return self(x, edge_index) + 1.0


def test_what_the_model_has_is_not_hidden():
    model = wrapped(Crowded())
    for name in NAMES:
        assert getattr(model, name) == getattr(model.wrapped, name) == f"its own {name}"
        setattr(model, name, "another")
        assert getattr(model.wrapped, name) == "another"
    model(X, EDGES)
    assert all(getattr(model.wrapped, name) == f"its own {name}" for name in PRIVATE)
    assert model.conv1 is model.wrapped.conv1
    assert model.dimension == 6
    assert model.decode(X, EDGES).shape == (EDGES.shape[1],)
    with pytest.raises(AttributeError, match="'Crowded' object has no attribute 'conv3'"):
        _ = model.conv3


def test_what_is_set_on_the_wrapper_is_set_where_it_is_read():
    model = wrapped(Crowded()).eval()
    model.head = nn.Linear(6, 10)
    assert model(X, EDGES).shape == (NODES, 10)
    assert not [name for name, _ in model.named_parameters() if name.startswith("head")]
    model.note = model._note = "mine"
    assert {"note", "_note"} <= model.__dict__.keys()
    assert not hasattr(model.wrapped, "_note")
    model.encode = "not the method"
    assert callable(model.wrapped.encode)


@pytest.mark.parametrize("method", ["inference", "encode"])
def test_methods_of_the_model_run_on_views(method):
    """PyG's SAGE examples call `model.inference(...)`, its autoencoders `encode`."""
    plain = seeded(Crowded)
    model = wrapped(copy.deepcopy(plain))
    one, other = (getattr(model.train(), method)(X, EDGES) for _ in range(2))
    assert not torch.equal(one, other)
    torch.testing.assert_close(getattr(model.eval(), method)(X, EDGES), getattr(plain, method)(X, EDGES))


def test_outputs_of_several_parts():
    class Both(Net):
        def forward(self, x: Tensor, edge_index: Any) -> tuple[Tensor, Tensor]:
            hidden = self.convs[0](x, edge_index)
            return self.head(self.convs[1](hidden.relu(), edge_index)), hidden

    model = adapting(seeded(lambda: Both(LAYERS["GCNConv"]))).train()
    logits, hidden = model(X, EDGES)
    (cross_entropy(logits[:20], LABELS[:20]) + 0.1 * hidden.square().mean()).backward()
    model.adapt()
    assert int(model.rate_state.steps) == 1
    many = wrapped(rade.revert(model), inference=rade.Ensemble(3)).eval()
    assert [part.shape for part in many(X, EDGES)] == [(NODES, 3), (NODES, 6)]

    model = adapting(Ends(lambda logits: {"logits": logits})).train()
    cross_entropy(model(X, EDGES)["logits"], LABELS).backward()
    with pytest.raises(ValueError, match=r"expected logits, or a tuple whose first entry they are.*got dict"):
        model.adapt(X, EDGES)


WIDE, NARROW = FEATURES, 6


class Adapter(nn.Linear):
    """Low-rank additions to a weight that is not trained."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.down, self.up = nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.up(self.down(x))


def replaced(layer: nn.Module) -> nn.Module:
    before = layer.forward
    layer.forward = lambda x: 3 * before(x)
    return layer


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, args, out: 2 * out)
    return layer


CHANGES = {
    "adapter": lambda layer: Adapter(WIDE, NARROW, layer.bias is not None),
    "hook": hooked,
    "forward of its own": replaced,
    "scripted": torch.jit.script,
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    "spectral norm": spectral_norm,
    "parametrized": parametrizations.weight_norm,
}
PLACES = {
    "GCNConv": (lambda: GCNConv(WIDE, NARROW), "lin"),
    "SAGEConv": (lambda: SAGEConv(WIDE, NARROW), "lin_l"),
    "GraphConv": (lambda: GraphConv(WIDE, NARROW), "lin_rel"),
    "SGConv": (lambda: SGConv(WIDE, NARROW, K=2), "lin"),
    "GATConv": (lambda: GATConv(WIDE, NARROW), "lin"),
    "TAGConv": (lambda: TAGConv(WIDE, NARROW, K=2), "lins.0"),
    "GINConv": (lambda: GINConv(nn.Sequential(nn.Linear(WIDE, NARROW), nn.ReLU(), nn.Linear(NARROW, NARROW))), "nn.0"),
    "GINConv of an MLP": (lambda: GINConv(MLP([WIDE, NARROW, NARROW], norm=None)), "nn.lins.0"),
}


def changed(place: str, change: str) -> nn.Module:
    build, path = PLACES[place]
    conv = build()
    parent, _, name = path.rpartition(".")
    owner = conv.get_submodule(parent)
    setattr(owner, name, CHANGES[change](getattr(owner, name)))
    return conv


def gradients(model: nn.Module) -> dict[str, Tensor]:
    cross_entropy(model.train()(X, EDGES), LABELS).backward()
    return {name.removeprefix("wrapped."): parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", PLACES)
def test_what_a_layer_does_is_done(place, change):
    """In training at rates of 0, where a view is the graph; at inference, dense and sparse; and by a rate step."""
    plain, net = (seeded(lambda: changed(place, change)) for _ in range(2))
    model = wrapped(net, rule=rade.Constant(0.0, 0.0), correction=rade.Correction(tolerance=1e-5))
    expected, found = gradients(plain), gradients(model)
    for name in expected.keys() | found.keys():
        assert float((found[name] - expected[name]).abs().max()) < 3e-3 * float(1e-3 + expected[name].abs().max()), name
    model.eval(), plain.eval()
    for given in (X, (X * (X > 1)).to_sparse_csr()):
        torch.testing.assert_close(model(given, EDGES), plain(given.to_dense(), EDGES), rtol=1e-4, atol=1e-5)
    if change in ("adapter", "hook", "pruned"):
        model = wrapped(seeded(lambda: changed(place, change)), rule=rade.GradNorm(lr=0.1))
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        model.adapt(X, EDGES)
        assert 0.1 > abs(model.rates.p - 0.5) > 0.09


class Metric(nn.Module):
    """Like those of torchmetrics: comparing two of them makes a third."""

    def __eq__(self, other: object) -> nn.Module:
        return self

    __hash__ = nn.Module.__hash__


def test_a_metric_is_no_layer():
    """Two of them beside the layers, as people write a LightningModule."""
    net = Net(GCNConv)
    net.train_acc, net.val_acc = Metric(), Metric()
    assert rade.check(net, X, EDGES).works
    model = rade.RADE(net).train()
    assert not torch.equal(model(X, EDGES), model(X, EDGES))


class Chosen(Net):
    """Returns the rows of a mask, and their classes."""

    def forward(self, x: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        found = super().forward(x, EDGES)[batch > 0]
        return found, found.argmax(1)


def test_no_rows_classes_and_a_batch_vector_in_the_second_place():
    model = rade.RADE(Chosen(GCNConv), rule=rade.Constant(0.5, 0.5)).train()
    model(X, torch.zeros(len(X), dtype=torch.long))[0].sum().backward()  # no row at all
    with pytest.warns(UserWarning, match="edges between the graphs"):
        model(X, torch.arange(len(X)))
    logits, classes = model.eval().by(rade.Ensemble(4))(X, torch.ones(len(X), dtype=torch.long))
    assert logits.is_floating_point()
    assert classes.dtype == torch.long
