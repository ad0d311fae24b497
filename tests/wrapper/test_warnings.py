"""What was silently wrong is now said, once, or refused before the rates move; `rade.check` tells it before."""

import re
import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn.functional import binary_cross_entropy, cross_entropy, nll_loss
from torch_geometric.nn import EdgeConv, GCNConv, GPSConv, SAGEConv, SAGPooling, TopKPooling, global_add_pool

import rade
from zoo import EDGES, EVERY, LABELS, Ends, Net, X, adapting, batch_of, normal, random_edges, seeded, training_step


def test_a_batch_without_its_vector_is_noticed_once():
    """Blocks of nodes without an edge between them; neither in another order of nodes nor without edges."""
    data, model = batch_of(*[8] * 5), adapting().train()
    with pytest.warns(UserWarning, match=r"looks like a batch: 5 blocks.*argument named batch"):
        model(data.x, data.edge_index)
    model(data.x, data.edge_index)
    shuffled = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[data.edge_index]
    for edges in (EDGES, shuffled, EDGES[:, :0]):
        adapting().train()(X, edges)


class Pooling(torch.nn.Module):
    """Graph logits; its second layer, if it has one, gets the nodes that the pooling leaves."""

    def __init__(self, told: bool = False, pool=TopKPooling, last: bool = True) -> None:
        super().__init__()
        self.first, self.pool, self.last = GCNConv(8, 8), pool(8, 0.5), GCNConv(8, 8) if last else None
        self.head, self.told = torch.nn.Linear(8, 3), told

    def forward(self, x, edge_index, batch):
        x, edges, _, batch, *_ = self.pool(self.first(x, edge_index), edge_index, batch=batch)
        edges = rade.Graph.from_edge_index(edges, len(x), batch) if self.told else edges
        return self.head(global_add_pool(x if self.last is None else self.last(x, edges), batch))


def test_graphs_that_pooling_mixes_are_noticed_once():
    """Not where nothing is added, where there is one graph, or where the layer is given the pooled batch vector."""
    data = batch_of(8, 8, 8)
    given = data.x, data.edge_index, data.batch
    model = rade.RADE(Pooling()).train()
    with pytest.warns(UserWarning, match=r"GCNConv got nodes that no batch vector.*rade\.Graph\.from_edge_index"):
        model(*given)
    model(*given)
    rade.RADE(Pooling(), rule=rade.Constant(0.2, 0.0)).train()(*given)
    rade.RADE(Pooling()).train()(data[0].x, data[0].edge_index, data.batch[:8])
    told = rade.RADE(Pooling(told=True)).train()
    told(*given)
    assert {views.graph.num_graphs for views in told._context.reached.distributions.values()} == {3}
    told.eval()(*given)


@pytest.mark.filterwarnings("ignore:GCNConv got nodes")
@pytest.mark.parametrize(
    ("pool", "last", "sentence"),
    [
        (TopKPooling, True, r"16 nodes that a pooling layer left of 32, .*: pass rade.Graph.*rule=rade.NoiseRatio\(\)"),
        (SAGPooling, True, "16 nodes that a pooling layer left of 32, and their graphs are unknown"),
        (SAGPooling, False, r"is that of SAGPooling, which scores nodes .*: use rule=rade.NoiseRatio\(\)"),
    ],
)
def test_rates_behind_a_pooling_layer_are_refused_with_ways_out_that_work(pool, last, sentence):
    data, labels = batch_of(8, 8, 8, 8), torch.tensor([0, 1, 2, 0])

    def step(told: bool, rule: rade.Rule) -> None:
        model = adapting(Pooling(told, pool, last), rule=rule, readout=rade.Readout(pool="sum"))
        training_step(model, data.x, data.edge_index, data.batch, labels=labels)
        model.adapt()

    with pytest.raises(ValueError, match=sentence):
        step(False, rade.GradNorm())
    step(False, rade.NoiseRatio())
    if last:
        step(True, rade.GradNorm())


def test_log_probabilities_pass_and_probabilities_do_not():
    model = adapting(Ends(lambda logits: logits.log_softmax(1)))
    nll_loss(model.train()(X, EDGES), LABELS).backward()
    model.adapt()
    model = adapting(Ends(lambda logits: logits.softmax(1)), readout=rade.Readout(task="multiclass"))
    nll_loss(model.train()(X, EDGES).log(), LABELS).backward()
    with pytest.raises(ValueError, match=r"outputs are probabilities.*log_softmax"):
        model.adapt()


def test_probabilities_of_a_sigmoid_are_noticed():
    model = adapting(Ends(torch.sigmoid), readout=rade.Readout(task="multilabel"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(12):
            binary_cross_entropy(model.train()(X, EDGES), (X[:, :3] > 0).float()).backward()
            model.adapt()
    (found,) = said
    assert re.search("as after a sigmoid.*return logits", str(found.message))


@pytest.mark.parametrize(("rho", "labelled", "expected"), [(0.5, 9, 1), (0.0, 9, 0), (0.5, 40, 0)])
def test_few_labels_and_constant_additions(rho, labelled, expected):
    """Said by the second training call, which knows what the first loss reached."""
    x, edges = normal(200, 8), random_edges(200, 400)
    model = adapting(rule=rade.Constant(0.2, rho))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            cross_entropy(model.train()(x, edges)[:labelled], LABELS[torch.arange(labelled) % 9]).backward()
    assert sum("of the rows are labelled" in str(one.message) for one in said) == expected


def test_rates_that_nobody_moves_are_noticed():
    model = adapting()
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


def test_a_first_graph_of_another_density_is_told():
    model = adapting().train()
    triangle = torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1]])
    model(normal(3, 8), triangle)
    with pytest.warns(UserWarning, match="follows from the density that was given, or from that of the first"):
        model(normal(200, 8), random_edges(200, 300))


@pytest.mark.parametrize("layer", ["GCNConv", "GINConv", "SAGEConv", "GATConv"])
@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_a_later_graph_that_is_sparser_than_its_noise_does_not_stop_a_training(variant, layer):
    """Nor an evaluation, and all numbers stay finite; `test_bad_input` has the first graph."""
    model = adapting(seeded(lambda: Net(EVERY[layer])), variant, noise=rade.Rates(0.05, 0.03))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for edges in (EDGES, EDGES[:, :30], EDGES[:, :0], EDGES[:, :20]):
            loss = training_step(model, X, edges, labels=LABELS)
            gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
            assert torch.isfinite(torch.cat([loss[None], gradients, model.adapt().flatten()])).all()
            assert torch.isfinite(model.eval()(X, edges)).all()
    assert sum("leaves no real edge in a graph of density" in str(one.message) for one in said) == 1


GCN = partial(Net, GCNConv)
LARGE = (normal(200, 8), random_edges(200, 400))
FEW = "only 4.5% of the rows are labelled and edges are added"
LENGTH = partial(SAGEConv, normalize=True)
# A model, its arguments, those of `check`, the mark and the sentence, or None where it is not to be found.
TOLD: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str | None, str]] = {
    "few labels": (GCN, LARGE, {"labelled": torch.arange(9)}, "??", FEW),
    "few, by a mask": (GCN, LARGE, {"labelled": torch.arange(200) < 9}, "??", FEW),
    "labels": (GCN, LARGE, {"labelled": torch.arange(40)}, "ok", "40 of 200 rows"),
    "Labelled": (GCN, LARGE, {"labelled": rade.Labelled(torch.arange(40))}, "ok", "40 of 200 rows"),
    "a list": (GCN, LARGE, {"labelled": [1, 2]}, "!!", "or a rade.Labelled, got list"),
    "no labels": (GCN, LARGE, {}, None, "labelled"),
    "probabilities": (lambda: Ends(lambda logits: logits.softmax(1)), LARGE, {}, "??", "outputs are probabilities"),
    "logits": (GCN, LARGE, {}, None, "are probabilities"),
    "length": (lambda: Net(LENGTH), (X, EDGES), {}, "??", "only its sum keeps the expectation (normalize=True is not"),
    "linear": (lambda: Net(SAGEConv), (X, EDGES), {}, None, "keeps the expectation"),
    "repeated": (GCN, (X, torch.cat([EDGES, EDGES], 1)), {}, "ok", "GCNConv: by pairs of views (its edge_index has"),
    "asked": (GCN, LARGE, {"options": {"correction": rade.Correction(by="pairs")}}, "ok", 'as Correction(by="pairs")'),
    "max": (lambda: SAGEConv(8, 3, aggr="max"), (X, EDGES), {}, "ok", "by pairs of views (MaxAggregation is no"),
    "mean": (lambda: SAGEConv(8, 3), (X, EDGES), {}, "ok", "by moments"),
    "RADE-OFS": (
        lambda: EdgeConv(torch.nn.Linear(16, 3)), (X, EDGES), {"options": {"variant": "ofs"}}, "!!", "use RADE-OF, "
    ),
    "adapts": (GCN, (X, EDGES), {"options": {"rule": rade.GradNorm()}}, "ok", "GradNorm adapts them; a step costs"),
    "fused attention": (
        lambda: GPSConv(8, GCNConv(8, 8), heads=2), (X, EDGES), {}, "ok", "with rade.GradNorm(): GradNorm adapts them"
    ),
    "differentiated once": (
        lambda: Ends(lambda z: torch.cdist(z, z[:3], p=1.0)), (X, EDGES), {}, "??", "is not implemented"
    ),
    "frozen": (lambda: GCN().requires_grad_(False), (X, EDGES), {}, "??", "no parameter of the model learns"),
    "no moments": (lambda: EdgeConv(torch.nn.Linear(16, 3)), (X, EDGES), {}, "??", "they stay as they are; with"),
}  # fmt: skip


# Rates cannot adapt.
FIXED = ("a list", "probabilities", "repeated", "asked", "max", "RADE-OFS", "differentiated once", "frozen",
         "no moments")  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_and_that_the_model_and_the_seed_are_left_alone(name):
    build, args, options, mark, sentence = TOLD[name]
    net, state = build(), torch.get_rng_state()
    classes = [type(module) for module in net.modules()]
    found = rade.check(net, *args, **options)
    marks = [line.mark for line in found.lines if sentence in line.found]
    assert marks[:1] == ([] if mark is None else [mark])
    assert found.works == (mark != "!!")
    assert f"{mark}  " in str(found) or mark is None
    assert found.adapts == (name not in FIXED), str(found)
    assert torch.equal(torch.get_rng_state(), state)
    assert [type(module) for module in net.modules()] == classes
    assert all(parameter.grad is None for parameter in net.parameters())
