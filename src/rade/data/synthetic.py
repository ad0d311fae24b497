"""Embedded tasks: seeded generators that need no file and no network."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from rade.data.catalogue import DataError, catalogue
from rade.data.dataset import Dataset, FixedSplit, Provenance, assemble, shares
from rade.data.tensors import Split, Tables, choose_layout, clean_edges, edge_slices, one_graph

FEATURES = 64  # of csbm without words


@dataclass(frozen=True)
class Words:
    """Bags of words, which are sparse: each class owns words/classes of them, and a node has each word of its class
    with probability ``topic``, any other with ``background``.
    """

    words: int
    topic: float = 0.1
    background: float = 0.02

    def draw(self, y: Tensor, classes: int, generator: torch.Generator) -> Tensor:
        """Features [n, F] of nodes of the classes y, as CSR where that is smaller."""
        own = (torch.arange(self.words) % classes) == y[:, None]  # [n, F]
        chance = torch.where(own, self.topic, self.background)
        present = torch.rand(chance.shape, generator=generator) < chance
        return choose_layout(sp.csr_matrix(present.float().numpy()))


def csbm(
    nodes: int = 1000,
    classes: int = 4,
    degree: float = 5.0,
    homophily: float = 0.75,
    labelled: int = 20,
    validation: float = 0.3,
    seed: int = 0,
    content: Words | None = None,
) -> Dataset:
    """Contextual stochastic block model (Deshpande et al. 2018): communities, and features that are normal around them.

    The defaults were fixed before any model was trained on them, each for its reason, and are not to be tuned by what
    comes out:

    - ``nodes`` = 1000, ``classes`` = 4, balanced: round numbers at which a run takes seconds.
    - ``degree`` = 5: citation graphs have about 4 (Cora 3.9, CiteSeer 2.7, PubMed 4.5); rounded up.
    - ``homophily`` = 0.75: the share of edges inside a class, between CiteSeer's 0.74 and Cora's 0.81. The others go to
      another class at random.
    - 64 features, normal with unit variance around a random point of norm 1 per class. Weak: two classes are √2 apart,
      so that nobody tells them by features alone more often than Φ(√2/2) = 76 %.
    - ``labelled`` = 20 per class for training, as in the public splits of the citation graphs; ``validation`` = 0.3: of
      the others about one in three is for early stopping, as there, the rest for the test.

    With ``content`` = `Words(300)` the features are bags of that many words instead.
    """
    own = {name: value for name, value in locals().items() if name != "content"}
    options = own | {"features": FEATURES, "signal": 1.0, "words": 0, "topic": 0.1, "background": 0.02}
    options |= {} if content is None else asdict(content)
    held_out = round(nodes * validation)
    needed = classes * (labelled + 1) + held_out
    if classes < 2 or labelled < 1 or nodes < needed or not 0 <= homophily <= 1:
        raise DataError(
            f"csbm needs classes ≥ 2, labelled ≥ 1, nodes ≥ classes·(labelled + 1) + validation·nodes = {needed} and "
            f"homophily in [0, 1], got {classes}, {labelled}, {nodes} and {homophily}"
        )
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    edge_index = _edges(y, classes, round(nodes * degree / 2), homophily, generator)
    x = _clouds(y, classes, generator) if content is None else content.draw(y, classes, generator)
    split = _split(y, classes, labelled, held_out, generator)
    return _dataset("csbm", one_graph(x, edge_index, y), split, classes, options)


def _clouds(y: Tensor, classes: int, generator: torch.Generator) -> Tensor:
    centre = torch.randn(classes, FEATURES, generator=generator)
    x: Tensor = (centre / centre.norm(dim=1, keepdim=True))[y] + torch.randn(y.numel(), FEATURES, generator=generator)
    return x


def _edges(y: Tensor, classes: int, count: int, homophily: float, generator: torch.Generator) -> Tensor:
    nodes = y.numel()
    source = torch.randint(nodes, (count,), generator=generator)
    other = torch.randint(1, classes, (count,), generator=generator)
    leaves = torch.rand(count, generator=generator) >= homophily
    target_class = (y[source] + torch.where(leaves, other, 0)) % classes
    # The members of class c are c, c + classes, …: draw a rank among them.
    members = (nodes - target_class + classes - 1) // classes
    rank = (torch.rand(count, generator=generator, dtype=torch.float64) * members).long()
    return clean_edges(source.numpy(), (target_class + rank * classes).numpy(), nodes)


def _split(y: Tensor, classes: int, labelled: int, held_out: int, generator: torch.Generator) -> Split:
    order = torch.randperm(y.numel(), generator=generator)
    train = torch.cat([order[y[order] == c][:labelled] for c in range(classes)])
    rest = order[~torch.isin(order, train)]
    return Split(*(part.sort().values for part in (train, rest[:held_out], rest[held_out:])))


def ring_transfer(rings: int = 1000, size: int = 10, classes: int = 5, seed: int = 0) -> Dataset:
    """Many rings in one graph; the first node of each must name the class that the opposite node carries.

    Radius ⌊size/2⌋: with fewer layers than that no information arrives and any model is at chance.
    Features: one column per class (the source only), one for the target, one for all the others. The splits hold
    target nodes; ``batch`` separates the rings. (Di Giovanni et al. 2023, "On over-squashing in message passing".)
    """
    options = dict(locals())
    if size < 3 or rings < 5 or classes < 2:
        raise DataError(f"ring_transfer needs size ≥ 3, rings ≥ 5, classes ≥ 2, got {size}, {rings}, {classes}")
    generator = torch.Generator().manual_seed(seed)
    label = torch.randperm(rings, generator=generator) % classes  # balanced
    x = torch.zeros(rings, size, classes + 2)
    x[:, :, classes + 1] = 1
    x[:, 0, classes + 1], x[:, 0, classes] = 0, 1
    x[:, size // 2] = torch.eye(classes + 2)[label]
    node = torch.arange(size)
    edges = torch.stack([node, (node + 1) % size])
    tables = _equal_graphs(x, edges[None], label.repeat_interleave(size))
    split = shares(torch.randperm(rings, generator=generator) * size)  # by the first node of each ring
    return _dataset("ring-transfer", tables, split, classes, options)


def tree_neighbors_match(trees: int = 2000, depth: int = 3, seed: int = 0) -> Dataset:
    """Many binary trees in one graph; the root must name the value of the leaf that has its key.

    Each leaf holds one of 2^depth keys and one of 2^depth values, both permuted at random; the root holds a key.
    The information of all leaves must pass through two edges, and fewer layers than ``depth`` see no leaf.
    Features: a column per key, one per value, one for inner nodes. The splits hold root nodes; ``batch`` tells
    the trees apart. (Alon and Yahav 2021, "On the bottleneck of graph neural networks".)
    """
    options = dict(locals())
    if not 1 <= depth <= 8 or trees < 5:
        raise DataError(f"tree_neighbors_match needs 1 ≤ depth ≤ 8 and trees ≥ 5, got {depth} and {trees}")
    generator = torch.Generator().manual_seed(seed)
    leaves = 2**depth
    keys, values = (torch.rand(trees, leaves, generator=generator).argsort(dim=1) for _ in range(2))
    wanted = torch.randint(leaves, (trees,), generator=generator)  # which leaf
    tree = torch.arange(trees)
    identity = torch.eye(leaves)
    x = torch.zeros(trees, 2 * leaves - 1, 2 * leaves + 1)
    x[:, 1 : leaves - 1, 2 * leaves] = 1
    x[:, 0, :leaves] = identity[keys[tree, wanted]]
    x[:, leaves - 1 :, : 2 * leaves] = torch.cat([identity[keys], identity[values]], dim=2)
    child = torch.arange(1, 2 * leaves - 1)
    edges = torch.stack([child, (child - 1) // 2])
    label = values[tree, wanted]
    tables = _equal_graphs(x, edges[None], label.repeat_interleave(2 * leaves - 1))
    split = shares(torch.randperm(trees, generator=generator) * (2 * leaves - 1))  # by the root of each tree
    return _dataset("tree-neighbors-match", tables, split, leaves, options)


def far_pair(graphs: int = 2000, length: int = 10, pendants: int = 5, classes: int = 2, seed: int = 0) -> Dataset:
    """Paths with coloured ends and pendant nodes in between; the label is (left colour + right colour) mod classes.

    Either colour alone says nothing about the label. Until messages from both ends meet at some node, which takes
    at least (length − 1)/2 layers, pooling with a linear head adds a function of one colour to a function
    of the other, and the best such sum in cross-entropy is a constant.
    Features: a column per colour (the ends only) and one for all other nodes.
    """
    options = dict(locals())
    if length < 3 or pendants < 0 or classes < 2 or graphs < 5:
        raise DataError(
            f"far_pair needs length ≥ 3, pendants ≥ 0, classes ≥ 2, graphs ≥ 5, "
            f"got {length}, {pendants}, {classes}, {graphs}"
        )
    generator = torch.Generator().manual_seed(seed)
    colours = torch.randint(classes, (graphs, 2), generator=generator)
    x = torch.zeros(graphs, length + pendants, classes + 1)
    x[:, :, classes] = 1
    x[:, [0, length - 1]] = torch.eye(classes + 1)[colours]
    path = torch.stack([torch.arange(length - 1), torch.arange(1, length)]).expand(graphs, -1, -1)
    anchors = torch.randint(1, length - 1, (graphs, pendants), generator=generator)
    hanging = torch.arange(length, length + pendants).expand(graphs, -1)
    edges = torch.cat([path, torch.stack([anchors, hanging], dim=1)], dim=2)
    tables = _equal_graphs(x, edges, colours.sum(dim=1) % classes)
    return _dataset("far-pair", tables, shares(torch.randperm(graphs, generator=generator)), classes, options)


GENERATORS: Mapping[str, Callable[..., Dataset]] = {
    "csbm": csbm,
    "ring-transfer": ring_transfer,
    "tree-neighbors-match": tree_neighbors_match,
    "far-pair": far_pair,
}


def _dataset(name: str, tables: Tables, split: Split, classes: int, options: Mapping[str, Any]) -> Dataset:
    """A generated data set; its options are its provenance."""
    entry = catalogue()[name]
    return assemble(entry, tables, FixedSplit(split), Provenance(entry.source, entry.licence, options=options), classes)


def _equal_graphs(x: Tensor, pairs: Tensor, y: Tensor) -> Tables:
    """Tables of G graphs with n nodes each, from features [G, n, F] and undirected edges [G, 2, E] (or [1, 2, E])."""
    graphs, nodes, width = x.shape
    node_ptr = torch.arange(graphs + 1) * nodes
    source, target = (pairs + node_ptr[:-1, None, None]).permute(1, 0, 2).reshape(2, -1).numpy()
    edge_index, edge_ptr = edge_slices(clean_edges(source, target, graphs * nodes), node_ptr)
    return Tables(x.reshape(-1, width), edge_index, y, node_ptr, edge_ptr)
