"""Rings, trees and far pairs: out of reach of short-sighted models, within reach of others."""

import math

import pytest
import torch
from data_models import GCN, accuracy, fit
from torch import Tensor, nn
from torch.nn import functional

import rade.data


def ring_accuracy(size: int, layers: int, epochs: int) -> tuple[float, Tensor]:
    dataset = rade.data.ring_transfer(rings=200, size=size, classes=4)
    data, split = dataset.graphs[0], dataset.split(0)
    torch.manual_seed(0)
    logits = fit(GCN(dataset.features, 32, 4, layers), (data.x, data.edge_index), data.y, split.train, epochs)
    return accuracy(logits, data.y, split.test), logits[split.test]


def test_a_gcn_with_fewer_layers_than_the_radius_is_at_chance_on_rings():
    """All targets look alike to it, so it can only name one class; 40 test rings hold 25 % of it ± 4σ (6e-5)."""
    found, logits = ring_accuracy(size=8, layers=3, epochs=60)
    assert torch.allclose(logits, logits[:1].expand_as(logits), atol=1e-4)
    assert abs(found - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 40)


def test_a_gcn_with_as_many_layers_as_the_radius_solves_rings():
    assert ring_accuracy(size=6, layers=3, epochs=120)[0] > 0.9


def test_rings_and_trees_are_told_apart_by_batch():
    for dataset, size in ((rade.data.ring_transfer(9, 5), 5), (rade.data.tree_neighbors_match(9, 2), 7)):
        data = dataset.graphs[0]
        assert torch.equal(data.batch, torch.arange(9).repeat_interleave(size))
        assert torch.equal(data.batch[data.edge_index[0]], data.batch[data.edge_index[1]])
        assert bool((torch.cat(list(vars(dataset.split(0)).values())) % size == 0).all())
        edges = data.edge_index.size(1) / 2 / 9
        assert dataset.density == pytest.approx(edges / (size * (size - 1) / 2))


def test_the_root_of_a_tree_wants_the_value_of_the_leaf_with_its_key():
    depth, trees = 3, 50
    dataset = rade.data.tree_neighbors_match(trees, depth)
    leaves = 2**depth
    x = dataset.graphs[0].x.view(trees, 2 * leaves - 1, -1)
    keys, values = x[:, leaves - 1 :, :leaves].argmax(dim=2), x[:, leaves - 1 :, leaves:-1].argmax(dim=2)
    wanted = x[:, 0, :leaves].argmax(dim=1)
    label = values[keys == wanted[:, None]]
    assert torch.equal(dataset.graphs[0].y.view(trees, -1)[:, 0], label)
    assert all(sorted(row) == list(range(leaves)) for row in [*keys.tolist(), *values.tolist()])


def test_far_pair_is_a_constant_to_models_that_see_one_end_at_a_time():
    """The label is independent of either colour, and of every sum of functions of one colour each."""
    dataset = rade.data.far_pair(graphs=4000, length=8, pendants=4, classes=3)
    data = dataset.graphs.batch(torch.arange(4000))
    ends = data.x.view(4000, 12, 4)[:, [0, 7], :3]
    assert torch.equal(ends.argmax(dim=2).sum(dim=1) % 3, data.y)
    additive = fit(nn.Linear(6, 3), (ends.flatten(1),), data.y, torch.arange(4000), epochs=200)
    # 10 free parameters lower the loss by about 10/2 per 4000 graphs; twenty times that is a false alarm below 1e-6.
    assert float(functional.cross_entropy(additive, data.y)) > math.log(3) - 100 / 4000


def far_pair_accuracy(length: int, layers: int) -> float:
    dataset = rade.data.far_pair(graphs=500, length=length, pendants=2)
    data, split = dataset.graphs.batch(torch.arange(500)), dataset.split(0)
    torch.manual_seed(0)
    inputs = (data.x, data.edge_index, data.batch)
    return accuracy(fit(GCN(3, 32, 2, layers), inputs, data.y, split.train, epochs=150), data.y, split.test)


def test_far_pair_is_learnable_when_both_ends_meet_and_not_before():
    """Two layers meet in the middle of a path of four nodes, not of one of twelve; ± 4σ over 100 graphs."""
    assert far_pair_accuracy(length=4, layers=2) > 0.9
    assert far_pair_accuracy(length=12, layers=2) < 0.5 + 4 * math.sqrt(0.25 / 100)
