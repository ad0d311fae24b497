"""Stand-ins that let PyG's examples run without a network and without compiled extras, for `pyg_examples.py`.

Data sets come from raw files on disk where there are some, else from small random graphs of the same kind. Loaders that
need pyg-lib or torch-sparse draw their neighborhoods by plain Python. None of it is fast, and none of it is to learn
from: what it shows is whether a script runs.
"""

from __future__ import annotations

import inspect
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch
import torch
import torch_geometric.datasets as datasets
import torch_geometric.loader as loaders
import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.sampler import HeteroSamplerOutput, NeighborSampler, SamplerOutput
from torch_geometric.utils import subgraph, to_undirected

GRAPHS = 160  # of a set on disk: as many as a minute allows
Arguments = dict[str, Any]


class Standin(InMemoryDataset):
    """Graphs in memory, with the properties that examples ask a data set for."""

    def __init__(self, graphs: Sequence[Any], arguments: Arguments, **properties: Any) -> None:
        super().__init__(None, arguments.get("transform"))
        before = arguments.get("pre_transform")
        self._data, self.slices = self.collate([graph if before is None else before(graph) for graph in graphs])
        self._data_list = None
        for name, value in properties.items():
            setattr(self, name, value)

    classes: int | None = None

    @property
    def num_classes(self) -> int:
        return super().num_classes if self.classes is None else self.classes

    def get_idx_split(self) -> dict[str, Tensor]:
        """As OGB's."""
        order = torch.randperm(self[0].num_nodes if len(self) == 1 else len(self))
        first, second = int(0.6 * len(order)), int(0.8 * len(order))
        return {"train": order[:first], "valid": order[first:second], "test": order[second:]}


def edges(nodes: int, degree: int = 4, directed: bool = False) -> Tensor:
    """A random graph without isolated nodes, repeated edges or self-loops."""
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    found = torch.cat([ring, torch.randint(nodes, (2, nodes * degree // 2))], 1)
    found = torch.unique(found[:, found[0] != found[1]], dim=1)
    return found if directed else to_undirected(found)


def between(sources: int, targets: int, count: int) -> Tensor:
    """Random distinct pairs of two kinds of nodes, in which every source occurs."""
    found = torch.stack([torch.arange(count) % sources, torch.randint(targets, (count,))])
    return torch.unique(found, dim=1).contiguous()


def masks(nodes: int) -> dict[str, Tensor]:
    part = torch.rand(nodes)
    return {"train_mask": part < 0.5, "val_mask": (part >= 0.5) & (part < 0.75), "test_mask": part >= 0.75}


def node_graph(nodes: int = 400, features: int = 32, classes: int = 7, directed: bool = False) -> Data:
    y = torch.arange(nodes) % classes
    return Data(torch.randn(nodes, features), edges(nodes, directed=directed), y=y, **masks(nodes))


def one_graph(arguments: Arguments) -> Standin:
    return Standin([node_graph()], arguments)


def ten_splits(arguments: Arguments) -> Standin:
    """A directed graph with a column of each mask for every split."""
    data = node_graph(directed=True)
    for name, mask in masks(data.num_nodes).items():
        data[name] = mask[:, None].expand(-1, 10)
    return Standin([data], arguments)


def proteins(arguments: Arguments) -> Standin:
    """Several graphs whose nodes have many labels each."""
    sizes = [60] * (6 if arguments["split"] == "train" else 2)
    graphs = [Data(torch.randn(n, 50), edges(n), y=(torch.rand(n, 121) < 0.3).float()) for n in sizes]
    return Standin(graphs, arguments)


def molecules(arguments: Arguments) -> Standin:
    """Atoms and bonds of a few kinds, and a target."""
    graphs = []
    for n in torch.randint(8, 20, (60,)).tolist():
        pairs = edges(n, 2)
        bonds = torch.randint(1, 4, (pairs.shape[1],))
        graphs.append(Data(torch.randint(21, (n, 1)), pairs, edge_attr=bonds, y=torch.randn(1)))
    return Standin(graphs, arguments)


def quantum(arguments: Arguments) -> Standin:
    graphs = []
    for n in torch.randint(5, 12, (60,)).tolist():
        pairs = edges(n, 2)
        bonds = torch.eye(4)[torch.randint(4, (pairs.shape[1],))]
        more = {"z": torch.randint(1, 9, (n,)), "pos": torch.randn(n, 3), "y": torch.randn(1, 19)}
        graphs.append(Data(torch.rand(n, 11), pairs, edge_attr=bonds, **more))
    return Standin(graphs * 400, arguments)  # examples skip the first 20,000


def superpixels(arguments: Arguments) -> Standin:
    graphs = []
    for k in range(80):
        graphs.append(Data(torch.rand(30, 1), edges(30), pos=28 * torch.rand(30, 2), y=torch.tensor([k % 10])))
    return Standin(graphs, arguments)


def ogb_molecules(arguments: Arguments) -> Standin:
    graphs = []
    for k, n in enumerate(torch.randint(8, 20, (80,)).tolist()):
        pairs = edges(n, 2)
        atoms, bonds = torch.zeros(n, 9, dtype=torch.long), torch.zeros(pairs.shape[1], 3, dtype=torch.long)
        graphs.append(Data(atoms, pairs, edge_attr=bonds, y=torch.tensor([[k % 2]])))
    return Standin(graphs, arguments, num_tasks=1, eval_metric="rocauc")


def small_graphs(arguments: Arguments) -> Standin:
    """For sets of graphs that are not on disk: many, since examples cut them at fixed numbers."""
    attributes = 4 if arguments["name"] == "COLORS-3" else 3
    count = {"COLORS-3": 3100, "TRIANGLES": 45000}.get(arguments["name"], GRAPHS)
    kinds = [edges(n) for n in (6, 7, 8, 9)]
    graphs = []
    for k in range(count):
        pairs = kinds[k % 4]
        nodes = 6 + k % 4
        x = torch.eye(attributes)[torch.randint(attributes, (nodes,))]
        graphs.append(Data(x, pairs, y=torch.tensor([k % 2])))
    return Standin(graphs, arguments)


def relations(arguments: Arguments) -> Standin:
    nodes, kinds = 200, 6
    pairs = torch.cat([edges(nodes, 2, directed=True) for _ in range(kinds)], 1)
    per_kind = torch.arange(pairs.shape[1]) % kinds
    order = torch.randperm(nodes)
    rows = {"train_idx": order[:80], "test_idx": order[80:120], "train_y": order[:80] % 4, "test_y": order[80:120] % 4}
    data = Data(edge_index=pairs, edge_type=per_kind, num_nodes=nodes, **rows)
    return Standin([data], arguments, num_relations=kinds, classes=4)


def relation_links(arguments: Arguments) -> Standin:
    nodes, kinds = 120, 4
    pairs = edges(nodes, 4, directed=True)
    per_kind = torch.randint(kinds, (pairs.shape[1],))
    both = torch.cat([pairs, pairs.flip(0)], 1), torch.cat([per_kind, per_kind + kinds])
    few = {"train_edge_index": pairs, "train_edge_type": per_kind}
    for split in ("valid", "test"):
        few |= {f"{split}_edge_index": pairs[:, :20], f"{split}_edge_type": per_kind[:20]}
    data = Data(edge_index=both[0], edge_type=both[1], num_nodes=nodes, **few)
    return Standin([data], arguments, num_relations=2 * kinds)


def movies(arguments: Arguments) -> Standin:
    data = HeteroData()
    data["movie"].x = torch.randn(90, 24)
    data["user"].num_nodes = 120
    data["user", "rates", "movie"].edge_index = between(120, 90, 700)
    count = data["user", "rates", "movie"].edge_index.shape[1]
    data["user", "rates", "movie"].edge_label = torch.randint(0, 6, (count,))
    data["user", "rates", "movie"].time = torch.arange(count)
    return Standin([data], arguments)


def hetero(counts: dict[str, int], kinds: list[tuple[str, str, str]], target: str, classes: int) -> Callable[..., Any]:
    """Nodes of several kinds, of which one has labels."""

    def make(arguments: Arguments) -> Standin:
        data = HeteroData()
        for kind, nodes in counts.items():
            data[kind].x = torch.randn(nodes, 16)
            data[kind].num_nodes = nodes
        if "conference" in counts:  # examples give it constant features
            del data["conference"].x
        for source, name, end in kinds:
            data[source, name, end].edge_index = between(counts[source], counts[end], 3 * counts[source])
        data[target].y = torch.arange(counts[target]) % classes
        for name, mask in masks(counts[target]).items():
            data[target][name] = mask
        return Standin([data], arguments, classes=classes)

    return make


IMDB = hetero({"movie": 100, "director": 40, "actor": 80}, [("movie", "to", "director"), ("movie", "to", "actor"),
              ("director", "to", "movie"), ("actor", "to", "movie")], "movie", 3)  # fmt: skip
DBLP = hetero({"author": 100, "paper": 150, "term": 60, "conference": 5}, [("author", "to", "paper"),
              ("paper", "to", "author"), ("paper", "to", "term"), ("paper", "to", "conference"),
              ("term", "to", "paper"), ("conference", "to", "paper")], "author", 4)  # fmt: skip
MAG = hetero({"paper": 200, "author": 150, "institution": 20, "field_of_study": 30}, [("author", "writes", "paper"),
             ("author", "affiliated_with", "institution"), ("paper", "cites", "paper"),
             ("paper", "has_topic", "field_of_study")], "paper", 5)  # fmt: skip


def taobao(arguments: Arguments) -> Standin:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes, data["category"].num_nodes = 300, 200, 10
    pairs = between(300, 200, 5000)  # batches of 2,048 must not be dropped as incomplete
    data["user", "to", "item"].edge_index = pairs
    data["user", "to", "item"].behavior = torch.zeros(pairs.shape[1])
    data["user", "to", "item"].time = torch.arange(pairs.shape[1])
    data["item", "to", "category"].edge_index = torch.stack([torch.arange(200), torch.arange(200) % 10])
    return Standin([data], arguments)


def books(arguments: Arguments) -> Standin:
    data = HeteroData()
    data["user"].num_nodes, data["book"].num_nodes = 100, 120
    pairs = between(100, 120, 900)
    data["user", "rates", "book"].edge_index = pairs[:, ::2].contiguous()
    data["user", "rates", "book"].edge_label_index = pairs[:, 1::2].contiguous()
    data["book", "rated_by", "user"].edge_index = pairs[:, ::2].flip(0).contiguous()
    return Standin([data], arguments)


def signed(arguments: Arguments) -> Standin:
    def part() -> Data:
        pairs = edges(80, 6, directed=True)
        return Data(edge_index=pairs, edge_attr=1.0 - 2.0 * (torch.rand(pairs.shape[1]) < 0.3).float(), num_nodes=80)

    return Standin([part() for _ in range(3)], arguments)


def threads(arguments: Arguments) -> Standin:
    """Trees, with the news at their root."""
    graphs = []
    for k in range(60):
        nodes = 6 + k % 5
        parents = torch.tensor([(child - 1) // 2 for child in range(1, nodes)])
        tree = torch.stack([parents, torch.arange(1, nodes)])
        graphs.append(Data(torch.randn(nodes, 20), tree, y=torch.tensor([k % 2])))
    return Standin(graphs, arguments)


def interactions(arguments: Arguments) -> Any:
    from torch_geometric.data import TemporalData

    count = 1200
    users, items = torch.randint(0, 60, (count,)), torch.randint(60, 100, (count,))
    found = TemporalData(src=users, dst=items, t=torch.arange(count), msg=torch.randn(count, 16))
    return [found]


def ogb_nodes(arguments: Arguments) -> Standin:
    data = node_graph(300, 32, 6, directed=arguments["name"] == "ogbn-arxiv")
    data.y = data.y[:, None]
    if arguments["name"] == "ogbn-proteins":
        data = Data(edge_index=data.edge_index, edge_attr=torch.rand(data.num_edges, 8), num_nodes=300,
                    y=(torch.rand(300, 112) < 0.4).long(), node_species=torch.zeros(300, 1))  # fmt: skip
    return Standin([data], arguments, num_tasks=112)


MADE: dict[str, Callable[[Arguments], Any]] = {
    "PPI": proteins, "Reddit": one_graph, "Reddit2": one_graph, "Flickr": one_graph, "ZINC": molecules, "QM9": quantum,
    "MNISTSuperpixels": superpixels, "Entities": relations, "RelLinkPredDataset": relation_links, "IMDB": IMDB,
    "DBLP": DBLP, "OGB_MAG": MAG, "MovieLens": movies, "Taobao": taobao, "AmazonBook": books, "BitcoinOTC": signed,
    "UPFD": threads, "WikipediaNetwork": ten_splits, "LINKXDataset": ten_splits, "JODIEDataset": interactions,
    "Yelp": one_graph,
}  # fmt: skip


def install(mirror: Path, cache: Path) -> None:
    """Replace data sets and loaders of PyG and OGB by those that need no network and no compiled extras."""
    torch.manual_seed(0)
    for name, make in MADE.items():
        setattr(datasets, name, _bound(getattr(datasets, name), make))
    datasets.Planetoid = _on_disk(datasets.Planetoid, mirror, cache)
    datasets.TUDataset = _on_disk(datasets.TUDataset, mirror, cache)
    _install_ogb()
    torch_geometric.typing.WITH_EDGE_TIME_NEIGHBOR_SAMPLE = True
    sys.modules["pytorch_lightning"] = lightning.pytorch  # the one that PyG's data modules are made for
    NeighborSampler._sample = _sample
    loaders.ClusterData._metis = lambda self, pairs, nodes: torch.arange(nodes) * self.num_parts // nodes
    loaders.GraphSAINTRandomWalkSampler = InducedBatches
    loaders.ShaDowKHopSampler = Surroundings


def _bound(original: Any, make: Callable[[Arguments], Any]) -> Callable[..., Any]:
    """Called as the data set is; its arguments by their names."""
    signature = inspect.signature(original)

    def build(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return make(bound.arguments)

    return build


def _on_disk(original: Any, mirror: Path, cache: Path) -> Callable[..., Any]:
    """Raw files of the mirror, read by PyG's own class into a folder of ours; at most GRAPHS graphs."""
    signature = inspect.signature(original)

    def build(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        given["name"] = {"PROTEINS_full": "PROTEINS"}.get(given["name"], given["name"])
        raw = mirror / given["name"] / "raw"
        if not raw.is_dir():
            return small_graphs(given)
        given["root"], given["force_reload"] = str(cache), True
        shutil.copytree(raw, cache / given["name"] / "raw", dirs_exist_ok=True)
        found = original(**given)
        return found if len(found) == 1 else found.copy(torch.randperm(len(found))[:GRAPHS])

    return build


def _install_ogb() -> None:
    import ogb.graphproppred
    import ogb.nodeproppred

    def nodes(name: str, root: str = "", transform: Any = None, pre_transform: Any = None) -> Standin:
        return ogb_nodes({"name": name, "transform": transform, "pre_transform": pre_transform})

    def graphs(name: str, root: str = "", transform: Any = None, pre_transform: Any = None) -> Standin:
        return ogb_molecules({"name": name, "transform": transform, "pre_transform": pre_transform})

    ogb.nodeproppred.PygNodePropPredDataset = nodes
    ogb.graphproppred.PygGraphPropPredDataset = graphs


# ---- loaders -------------------------------------------------------------------------------------------------------


class Neighborhood:
    """Nodes of several kinds in the order in which they were met, in trees of their own where ``disjoint``."""

    def __init__(self, disjoint: bool) -> None:
        self.disjoint = disjoint
        self.place: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)

    def add(self, kind: str, tree: int, node: int) -> int:
        known = self.place[kind]
        return known.setdefault((tree if self.disjoint else -1, node), len(known))

    def nodes(self, kind: str) -> Tensor:
        return torch.tensor([node for _, node in self.place[kind]], dtype=torch.long)

    def trees(self, kind: str) -> Tensor:
        return torch.tensor([tree for tree, _ in self.place[kind]], dtype=torch.long)


def _walk(
    seeds: dict[str, Tensor],
    pointers: dict[tuple[str, str, str], tuple[Tensor, Tensor]],
    fanouts: dict[tuple[str, str, str], list[int]],
    disjoint: bool,
) -> tuple[Neighborhood, dict[Any, list[list[int]]], dict[str, list[int]], dict[Any, list[int]]]:
    """Hop by hop, every node that was met in the last hop asks for neighbors by each relation."""
    found, picked = Neighborhood(disjoint), {kind: [list[int](), list[int](), list[int]()] for kind in pointers}
    kinds = {end for source, _, target in pointers for end in (source, target)} | set(seeds)
    for kind, nodes in seeds.items():
        for tree, node in enumerate(nodes.tolist()):
            found.add(kind, tree, node)
    start = dict.fromkeys(kinds, 0)
    nodes_by_hop = {kind: [len(found.place[kind])] for kind in kinds}
    edges_by_hop: dict[Any, list[int]] = {kind: [] for kind in pointers}
    for hop in range(max(len(fanout) for fanout in fanouts.values())):
        border = {kind: list(found.place[kind])[start[kind] :] for kind in kinds}
        start = {kind: len(found.place[kind]) for kind in kinds}
        for relation, (colptr, row) in pointers.items():
            before = len(picked[relation][0])
            for tree, node in border[relation[2]]:
                first, last = int(colptr[node]), int(colptr[node + 1])
                positions = torch.arange(first, last)
                count = fanouts[relation][hop]
                positions = positions if count < 0 else positions[torch.randperm(last - first)[:count]]
                for position in positions.tolist():
                    place = found.add(relation[0], tree, int(row[position]))
                    for part, value in zip(picked[relation], (place, found.add(relation[2], tree, node), position)):
                        part.append(value)
            edges_by_hop[relation].append(len(picked[relation][0]) - before)
        for kind in kinds:
            nodes_by_hop[kind].append(len(found.place[kind]) - start[kind])
    return found, picked, nodes_by_hop, edges_by_hop


def _sample(self: Any, seed: Any, seed_time: Any = None, **_: Any) -> Any:
    """In the place of PyG's call of pyg-lib; times are not looked at."""
    if not isinstance(seed, dict):
        one = ("node", "to", "node")
        fanouts = {one: self.num_neighbors.get_mapped_values()}
        found, picked, nodes, counts = _walk({"node": seed}, {one: (self.colptr, self.row)}, fanouts, self.disjoint)
        row, col, edge = (torch.tensor(part, dtype=torch.long) for part in picked[one])
        tree = found.trees("node") if self.disjoint else None
        return SamplerOutput(found.nodes("node"), row, col, edge, tree, nodes["node"], counts[one])
    pointers = {kind: (self.colptr_dict["__".join(kind)], self.row_dict["__".join(kind)]) for kind in self.edge_types}
    fanouts = dict(zip(self.edge_types, self.num_neighbors.get_mapped_values(self.edge_types).values()))
    found, picked, nodes, counts = _walk(seed, pointers, fanouts, self.disjoint)
    rows, cols, taken = (
        {kind: torch.tensor(parts[k], dtype=torch.long) for kind, parts in picked.items()} for k in range(3)
    )
    batch = {kind: found.trees(kind) for kind in self.node_types} if self.disjoint else None
    every = {kind: found.nodes(kind) for kind in self.node_types}
    return HeteroSamplerOutput(every, rows, cols, taken, batch, nodes, counts)


class InducedBatches:
    """Random induced subgraphs, with norms of one, in the place of GraphSAINT's sampler."""

    def __init__(self, data: Data, batch_size: int, num_steps: int = 1, **_: Any) -> None:
        self.data, self.size, self.steps = data, min(batch_size, data.num_nodes // 2), min(num_steps, 3)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Any:
        for _ in range(self.steps):
            nodes = torch.randperm(self.data.num_nodes)[: self.size]
            part = self.data.subgraph(nodes)
            part.node_norm, part.edge_norm = torch.ones(part.num_nodes), torch.ones(part.num_edges)
            yield part


class Surroundings:
    """The neighbors of each root as a graph of its own, in the place of ShaDow's sampler."""

    def __init__(self, data: Data, depth: int, num_neighbors: int, node_idx: Any = None, **options: Any) -> None:
        self.data, self.size = data, options.get("batch_size", 1)
        self.roots = torch.arange(data.num_nodes) if node_idx is None else node_idx
        self.roots = self.roots.nonzero().squeeze(1) if self.roots.dtype == torch.bool else self.roots

    def __len__(self) -> int:
        return -(-len(self.roots) // self.size)

    def __iter__(self) -> Any:
        for roots in self.roots.split(self.size):
            parts, first, offset = [], [], 0
            for root in roots.tolist():
                near = self.data.edge_index[0][self.data.edge_index[1] == root]
                nodes = torch.cat([torch.tensor([root]), near[near != root]]).unique()
                pairs, _ = subgraph(nodes, self.data.edge_index, relabel_nodes=True, num_nodes=self.data.num_nodes)
                parts.append(Data(self.data.x[nodes], pairs))
                first.append(offset + int((nodes == root).nonzero()))
                offset += len(nodes)
            batch = Batch.from_data_list(parts)
            batch.root_n_id, batch.y = torch.tensor(first), self.data.y[roots]
            yield batch
