"""One reader per family of files: checked raw files in, plain tensors out; `read` makes a data set of them."""

import gzip
import io
import json
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.io import read_planetoid_data

from rade.data.catalogue import DataError
from rade.data.dataset import Dataset, FixedSplit, Provenance, RandomSplit, Splits, StratifiedFolds, assemble
from rade.data.files import RawFolder
from rade.data.tensors import Split, Tables, choose_layout, clean_edges, edge_slices, one_graph, pointer, row_normalised

CSR = ("data", "indices", "indptr")
MASKS = ("train_masks", "val_masks", "test_masks")
PLANETOID = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
PEPTIDES = ("x", "edge", "num_nodes", "num_edges", "y", "train", "val", "test")
# What readers raise on a file that is not what it should be.
UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, NotImplementedError, zlib.error)
_AGAIN = "delete the file and import or download it again"


def read_planetoid(raw: RawFolder) -> Tables:
    """Cora, CiteSeer and PubMed as PyG reads them: raw features, the citation graph and the public split.

    The only pickles that are opened, and only after their checksums matched.
    """
    prefix = raw.entry.folder.lower()
    places = [raw.checked(f"raw/ind.{prefix}.{part}") for part in PLANETOID]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these files name modules of NumPy and SciPy as they were in 2016
        data: Any = read_planetoid_data(str(places[0].parent), prefix)
    x = choose_layout(sp.csr_matrix(data.x.numpy()))
    split = Split(*(data[f"{part}_mask"].nonzero().squeeze(1) for part in ("train", "val", "test")))
    source, target = data.edge_index.numpy()
    return one_graph(x, clean_edges(source, target, data.y.numel()), data.y, split)


def read_npz(raw: RawFolder) -> Tables:
    """Amazon and Coauthor: words that occur, rows summing to 1, the undirected graph; the split is drawn per run."""
    keys = (f"{matrix}_{part}" for matrix in ("adj", "attr") for part in (*CSR, "shape"))
    arrays = _arrays(raw, (*keys, "labels"))
    adjacency, words = (
        sp.csr_matrix(tuple(arrays[f"{matrix}_{part}"] for part in CSR), tuple(arrays[f"{matrix}_shape"]))
        for matrix in ("adj", "attr")
    )
    words.data = (words.data > 0).astype(np.float32)  # as PyG reads these files: a word occurs or it does not
    pairs = adjacency.tocoo()
    edge_index = clean_edges(pairs.row.astype(np.int64), pairs.col.astype(np.int64), adjacency.shape[0])
    y = torch.from_numpy(arrays["labels"].astype(np.int64))
    return one_graph(choose_layout(row_normalised(words)), edge_index, y)


def read_heterophilous(raw: RawFolder) -> Tables:
    """Platonov et al. 2023: raw features, ten splits; labels of a binary task are 0/1 targets [n, 1]."""
    arrays = _arrays(raw, ("node_features", "node_labels", "edges", *MASKS))
    source, target = arrays["edges"].astype(np.int64).T
    labels = torch.from_numpy(arrays["node_labels"].astype(np.int64))
    y = labels[:, None].float() if raw.entry.loss == "binary" else labels
    masks = zip(*(arrays[part] for part in MASKS))
    splits = [Split(*(torch.from_numpy(np.flatnonzero(mask)) for mask in three)) for three in masks]
    x = choose_layout(sp.csr_matrix(arrays["node_features"]))
    return one_graph(x, clean_edges(source, target, len(labels)), y, *splits)


def read_flickr(raw: RawFolder) -> Tables:
    """GraphSAINT's layout: features with rows summing to 1, the graph, and the public split."""
    matrix = _arrays(raw, ("indices", "indptr"), "raw/adj_full.npz")
    roles, classes = (json.loads(raw.checked(f"raw/{file}.json").read_bytes()) for file in ("role", "class_map"))
    split = Split(*(torch.tensor(roles[part]).sort().values for part in ("tr", "va", "te")))
    count = len(classes)
    y = torch.empty(count, dtype=torch.long)
    y[torch.tensor([int(node) for node in classes])] = torch.tensor(list(classes.values()))
    source = np.repeat(np.arange(count), np.diff(matrix["indptr"]))
    edge_index = clean_edges(source, matrix["indices"].astype(np.int64), count)
    values = np.load(raw.checked("raw/feats.npy"), mmap_mode="r", allow_pickle=False)
    # In slices: the file is float64, and two dense copies of it would take a gigabyte.
    x = sp.vstack([sp.csr_matrix(values[i : i + 8192], dtype=np.float32) for i in range(0, len(values), 8192)])
    return one_graph(choose_layout(row_normalised(x)), edge_index, y, split)


def read_ogb_nodes(raw: RawFolder) -> Tables:
    """ogbn-arxiv: raw features, citations in both directions, the split by year."""
    count, links = (int(_table(raw, f"raw/num-{kind}-list.csv.gz", 1)[0, 0]) for kind in ("node", "edge"))
    pairs = _table(raw, "raw/edge.csv.gz", 2).reshape(links, 2)
    x = _table(raw, "raw/node-feat.csv.gz", raw.entry.features, np.float32)
    y = _table(raw, "raw/node-label.csv.gz", 1)
    edge_index = clean_edges(pairs[:, 0], pairs[:, 1], count)
    return one_graph(torch.from_numpy(x), edge_index, torch.from_numpy(y[:, 0]), _ogb_split(raw, "time"))


def read_ogb_graphs(raw: RawFolder) -> Tables:
    """ogbg-molhiv: categorical atom features, bonds in both directions, the scaffold split."""
    nodes, bonds = (torch.from_numpy(_table(raw, f"raw/num-{kind}-list.csv.gz", 1)[:, 0]) for kind in ("node", "edge"))
    node_ptr = pointer(nodes)
    pairs = _table(raw, "raw/edge.csv.gz", 2)
    x = _table(raw, "raw/node-feat.csv.gz", raw.entry.features)
    y = _table(raw, "raw/graph-label.csv.gz", raw.entry.classes, np.float32)
    edge_index, edge_ptr = _union_edges(pairs, bonds, node_ptr)
    features = torch.from_numpy(x).to(torch.uint8)
    return Tables(features, edge_index, torch.from_numpy(y), node_ptr, edge_ptr, (_ogb_split(raw, "scaffold"),))


def _ogb_split(raw: RawFolder, kind: str) -> Split:
    paths = (f"split/{kind}/{part}.csv.gz" for part in ("train", "valid", "test"))
    return Split(*(torch.from_numpy(_table(raw, path, 1)[:, 0]) for path in paths))


def read_peptides(raw: RawFolder) -> Tables:
    """Categorical atom features, bonds in both directions, ten labels per graph, the official split."""
    arrays = _arrays(raw, PEPTIDES)
    integers = {key: torch.from_numpy(arrays[key].astype(np.int64)) for key in PEPTIDES[2:]}
    node_ptr = pointer(integers["num_nodes"])
    edge_index, edge_ptr = _union_edges(arrays["edge"].astype(np.int64), integers["num_edges"], node_ptr)
    split = Split(integers["train"], integers["val"], integers["test"])
    return Tables(torch.from_numpy(arrays["x"]), edge_index, integers["y"].float(), node_ptr, edge_ptr, (split,))


def read_tu(raw: RawFolder) -> Tables:
    """Graphs in the order of the TU files; classes in the order of their labels; node labels or degrees one-hot."""
    prefix = f"raw/{raw.entry.folder}_"
    graph = _table(raw, f"{prefix}graph_indicator.txt", 1)[:, 0] - 1
    pairs = _table(raw, f"{prefix}A.txt", 2) - 1
    labels = torch.from_numpy(_table(raw, f"{prefix}graph_labels.txt", 1)[:, 0])
    node_ptr = pointer(torch.from_numpy(np.bincount(graph)))
    edges = clean_edges(pairs[:, 0], pairs[:, 1], len(graph))
    edge_index, edge_ptr = edge_slices(edges, node_ptr)
    if raw.has(f"{prefix}node_labels.txt"):
        kinds = torch.from_numpy(_table(raw, f"{prefix}node_labels.txt", 1)[:, 0])
    else:
        kinds = torch.bincount(edges[0], minlength=len(graph))
    # One column per *distinct* value, in increasing order: IMDB-B has 65 degrees, the largest of them 135.
    distinct, column = torch.unique(kinds, return_inverse=True)
    x, y = torch.eye(distinct.numel())[column], torch.unique(labels, return_inverse=True)[1]
    return Tables(x, edge_index, y, node_ptr, edge_ptr)


READERS: Mapping[str, Callable[[RawFolder], Tables]] = {
    "planetoid": read_planetoid,
    "coauthor": read_npz,
    "amazon": read_npz,
    "flickr": read_flickr,
    "ogb-node": read_ogb_nodes,
    "ogb-graph": read_ogb_graphs,
    "tu": read_tu,
    "peptides": read_peptides,
    "heterophilous": read_heterophilous,
}


def read(raw: RawFolder) -> Dataset:
    """The data set of raw files, of the sizes that it is known to have."""
    entry = raw.entry
    try:
        tables = READERS[entry.family](raw)
    except DataError:
        raise
    except (*UNREADABLE, zipfile.BadZipFile) as reason:
        raise DataError(f"{list(raw.seen or [entry.title])[-1]} cannot be read ({reason}); {_AGAIN}") from None
    found = (len(tables.node_ptr) - 1, int(tables.node_ptr[-1]), tables.edge_index.size(1) // 2, tables.x.size(1))
    expected = (entry.graphs, entry.nodes, entry.edges, entry.features)
    if found != expected:
        sizes = f"should have (graphs, nodes, edges, features) = {expected}, its file has {found}"
        raise DataError(f"{entry.title} {sizes}; {_AGAIN}")
    splits: Splits = StratifiedFolds(tables.y) if entry.level == "graph" else RandomSplit(tables.y.size(0))
    if tables.splits:
        splits = FixedSplit(tables.splits[0], tables.splits[1:])
    return assemble(entry, tables, splits, Provenance(entry.source, entry.licence, dict(raw.seen)), entry.classes)


def repack_peptides(archive: zipfile.ZipFile, out: IO[bytes]) -> None:
    """Turn LRGB's tensor files train, val, test (lists of x, edge_attr, edge_index, y) into the npz of the reader."""
    graphs: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    split: dict[str, Any] = {}
    for part in PEPTIDES[-3:]:
        loaded = torch.load(io.BytesIO(archive.read(f"peptidesfunc/{part}.pt")), weights_only=True)
        split[part] = np.arange(len(graphs), len(graphs) + len(loaded))
        graphs += loaded
    edges = [edge_index[:, edge_index[0] < edge_index[1]] for _, _, edge_index, _ in graphs]
    np.savez_compressed(
        out,
        x=torch.cat([x for x, _, _, _ in graphs]).to(torch.uint8).numpy(),
        edge=torch.cat(edges, dim=1).t().to(torch.int32).numpy(),
        num_nodes=np.array([x.size(0) for x, _, _, _ in graphs]),
        num_edges=np.array([edge.size(1) for edge in edges]),
        y=torch.cat([y.view(1, -1) for _, _, _, y in graphs]).to(torch.uint8).numpy(),
        **split,
    )


def _table(raw: RawFolder, path: str, columns: int, dtype: type = np.int64) -> NDArray[Any]:
    """A comma-separated table of numbers [rows, columns]; ``.gz`` is unpacked."""
    content = raw.checked(path).read_bytes()
    text = gzip.decompress(content) if path.endswith(".gz") else content
    return np.fromstring(text.replace(b",", b" "), dtype=dtype, sep=" ").reshape(-1, columns)


def _arrays(raw: RawFolder, keys: tuple[str, ...], path: str = "") -> Mapping[str, NDArray[Any]]:
    """Arrays of an npz file, never unpickled; a flipped bit in any of them fails the archive's own checksum."""
    with np.load(raw.checked(path), allow_pickle=False) as archive:
        return {key: archive[key] for key in keys}


def _union_edges(pairs: NDArray[np.int64], counts: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Edges numbered per graph [M, 2], cleaned in one disjoint union and cut apart again."""
    shift = torch.repeat_interleave(node_ptr[:-1], counts).numpy()
    edge_index = clean_edges(pairs[:, 0] + shift, pairs[:, 1] + shift, int(node_ptr[-1]))
    edge_index, edge_ptr = edge_slices(edge_index, node_ptr)
    return edge_index.to(torch.int32), edge_ptr
