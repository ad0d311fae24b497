"""Graphs corrupted on purpose."""

from __future__ import annotations

import pytest
import torch

import rade
from rade.train.corruption import Corruption
from rade.train.errors import SettingsError


def test_numbers_are_as_asked_for():
    dataset = rade.data.load("csbm", nodes=600)
    clean = rade.Graph.from_edge_index(dataset.graphs[0].edge_index, 600)
    corruption = Corruption(drop=0.4, add=1.5, seed=3)
    noisy = corruption.of(clean)
    before, after = (set(map(tuple, graph.edge_index.t().tolist())) for graph in (clean, noisy))
    spread = 5 * (2 * clean.num_edges) ** 0.5  # five standard errors: false alarm once in 10^6
    assert abs(len(before & after) - 0.6 * len(before)) < spread
    assert abs(len(after - before) - 1.5 * len(before)) < 2 * spread
    assert corruption.share == pytest.approx(1.5 / 2.1)


def test_equal_seeds_give_equal_graphs():
    dataset = rade.data.load("csbm", nodes=300)
    one, other, third = (Corruption(0.3, 1.0, seed).of_dataset(dataset).graphs[0].edge_index for seed in (1, 1, 2))
    assert torch.equal(one, other)
    assert one.shape != third.shape or not torch.equal(one, third)


def test_a_corrupted_data_set_says_so_and_leaves_the_clean_one_alone():
    dataset = rade.data.load("csbm", nodes=300)
    edges = dataset.graphs[0].edge_index.clone()
    noisy = Corruption(add=1.0).of_dataset(dataset)
    assert noisy.provenance.options["corrupted"] == {"drop": 0.0, "add": 1.0, "seed": 0}
    assert noisy.density == pytest.approx(2 * dataset.density)
    assert torch.equal(dataset.graphs[0].edge_index, edges)
    assert Corruption().of_dataset(dataset) is dataset


def test_graphs_of_a_list_stay_apart():
    """Every graph keeps its nodes, and its edges stay inside."""
    from rade.data import GraphList
    from rade.data.tensors import Tables

    sizes, y = torch.tensor([4, 6, 5]), torch.tensor([0, 1, 0])
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in sizes.tolist()]
    edges = [torch.cat([ring, ring.flip(0)], 1) for ring in rings]
    ptr = torch.tensor([0, 4, 10, 15])
    tables = Tables(torch.randn(15, 2), torch.cat(edges, 1), y, ptr, 2 * ptr)
    noisy = Corruption(drop=0.2, add=0.5, seed=1)._list(GraphList(tables))
    assert [data.num_nodes for data in noisy] == sizes.tolist()
    for data in noisy:
        assert int(data.edge_index.max()) < data.num_nodes
        rade.Graph.from_edge_index(data.edge_index, data.num_nodes)  # symmetric and without repetition
    assert not torch.equal(noisy.tables.edge_ptr, tables.edge_ptr)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1", "DROP,ADD or DROP,ADD,SEED"),
        ("a,b", "DROP,ADD or DROP,ADD,SEED"),
        ("1,0", r"dropped edges must lie in \[0, 1\), got 1"),
        ("0,-1", r"must lie in \[0, 1000\], got -1"),
        ("0,1,-2", "a seed of at least 0"),
        ("0,1,2,3", "DROP,ADD or DROP,ADD,SEED"),
        ("nan,1", r"must lie in \[0, 1\)"),
    ],
)
def test_bad_corruptions_are_refused(text, sentence):
    with pytest.raises(SettingsError, match=sentence):
        Corruption.parse(text)
