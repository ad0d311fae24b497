"""Perturbed graphs, several public splits, and a graph without its features."""

from pathlib import Path

import pytest
import torch
from data_facts import NUMBERED
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data
from looping import looped
from rade.data.catalogue import catalogue, members

MEMBERS = [entry.name for entry in catalogue().values() if entry.group]
GROUPS = list({entry.group: None for entry in catalogue().values() if entry.group})


def undirected(name: str, root: Path) -> set[int]:
    data = rade.data.load(name, root, download=False).graphs[0]
    source, target = data.edge_index
    return set((source * data.num_nodes + target)[source < target].tolist())


@looped("name", MEMBERS)
def test_perturbed_graphs_have_the_stated_sizes_and_are_simple(name: str, root: Path):
    entry, dataset = rade.data.resolve(name), rade.data.load(name, root, download=False)
    data, split = dataset.graphs[0], dataset.split(run=3)
    assert (data.num_nodes, data.edge_index.size(1) // 2) == (entry.nodes, entry.edges)
    assert (data.x.shape, int(data.y.max()) + 1) == ((entry.nodes, entry.features), entry.classes)
    assert is_undirected(data.edge_index, num_nodes=data.num_nodes)
    assert not contains_self_loops(data.edge_index)
    sizes = "/".join(str(part.numel()) for part in vars(split).values())
    assert entry.split == f"fixed {sizes}"
    assert torch.cat(list(vars(split).values())).unique().numel() == sum(map(int, sizes.split("/")))


@pytest.mark.parametrize("group", [group for group in GROUPS if group.endswith("-meta")])
def test_metattack_changes_the_stated_fraction_of_the_clean_edges(group: str, root: Path):
    clean = undirected(f"{group}-0", root)
    for entry in members(group)[1:]:
        strength = float(entry.name.removeprefix(f"{group}-"))
        assert len(clean ^ undirected(entry.name, root)) == int(strength * len(clean))


def test_metattack_mostly_adds_edges_between_classes(root: Path):
    """The figures of the mirror's description for Cora: 1222 added, 45 removed, homophily from 0.804 to 0.661."""
    clean, attacked = (undirected(f"cora-meta-{strength}", root) for strength in ("0", "0.25"))
    assert (len(attacked - clean), len(clean - attacked)) == (1222, 45)
    for strength, homophily in (("0", 0.804), ("0.25", 0.661)):
        data = rade.data.load(f"cora-meta-{strength}", root, download=False).graphs[0]
        source, target = data.edge_index
        assert float((data.y[source] == data.y[target]).float().mean()) == pytest.approx(homophily, abs=5e-4)


@pytest.mark.parametrize("group", [group for group in GROUPS if group.endswith("-nettack")])
def test_nettack_changes_edges_at_the_nodes_that_are_tested(group: str, root: Path):
    clean = undirected(f"{group}-0", root)
    tested = set(rade.data.load(f"{group}-0", root, download=False).split(0).test.tolist())
    nodes = rade.data.resolve(f"{group}-0").nodes
    changed = clean ^ undirected(f"{group}-1", root)
    assert 0 < len(changed) <= len(tested)
    assert all({key // nodes, key % nodes} & tested for key in changed)


def test_polblogs_has_the_identity_for_features(root: Path):
    x = rade.data.load("polblogs-meta-0", root, download=False).graphs[0].x
    assert x.layout is torch.sparse_csr
    assert torch.equal(x.to_dense(), torch.eye(1222))


def test_members_of_a_group_keep_separate_caches(root: Path):
    first, second = (rade.data.load(f"cora-nettack-{k}", root, download=False) for k in (1, 2))
    again = rade.data.load("cora-nettack-1", root, download=False)
    assert torch.equal(first.graphs[0].edge_index, again.graphs[0].edge_index)
    assert first.provenance.files.keys() - second.provenance.files.keys() == {
        "adversarial/nettack/cora_nettack_adj_1.0.npz"
    }
    caches = {path.name for path in (root / "adversarial" / "rade").iterdir()}
    assert {name for name in caches if name.startswith("cora-nettack-1")} != set()
    assert {name for name in caches if name.startswith("cora-nettack-2")} != set()


@pytest.mark.parametrize("name", NUMBERED)
def test_run_r_takes_split_r_of_ten(name: str, root: Path):
    dataset = rade.data.load(name, root, download=False)
    splits = [dataset.split(run) for run in range(10)]
    assert len({tuple(split.train.tolist()) for split in splits}) == 10
    for split in splits:
        everything = torch.cat(list(vars(split).values())).sort().values
        assert torch.equal(everything, torch.arange(dataset.graphs[0].num_nodes))
    assert torch.equal(dataset.split(run=13, seed=5).test, splits[3].test)
    assert dataset.folds == 0
    with pytest.raises(rade.data.DataError, match="no folds; use split"):
        dataset.fold(0)


@pytest.mark.parametrize(
    ("name", "homophily"),
    [("minesweeper", 0.683), ("tolokers", 0.595), ("chameleon-filtered", 0.236), ("squirrel-filtered", 0.207)],
)
def test_heterophilous_graphs_have_the_stated_homophily(name: str, homophily: float, root: Path):
    data = rade.data.load(name, root, download=False).graphs[0]
    source, target = data.edge_index
    y = data.y.view(-1)
    assert float((y[source] == y[target]).float().mean()) == pytest.approx(homophily, abs=5e-4)


def test_binary_nodes_have_one_float_target_each(root: Path):
    data = rade.data.load("minesweeper", root, download=False).graphs[0]
    assert (data.y.shape, data.y.dtype, data.y.unique().tolist()) == ((10000, 1), torch.float, [0.0, 1.0])


def test_the_structure_of_arxiv_is_real_and_the_rest_is_random_from_a_fixed_seed(root: Path):
    dataset = rade.data.load("arxiv-structure", root, download=False)
    data = dataset.graphs[0]
    assert (data.num_nodes, data.edge_index.size(1) // 2, dataset.features) == (169343, 1157799, 128)
    assert is_undirected(data.edge_index, num_nodes=169343)
    assert not contains_self_loops(data.edge_index)
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(data.y, torch.randint(40, (169343,), generator=generator))
    assert torch.equal(data.x, torch.randn(169343, 128, generator=generator))
    assert "structure only" in dataset.provenance.source
