"""Cora, CiteSeer and PubMed in the Planetoid layout; its pickles are opened only after their checksum matched."""

import collections
import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rade.data.catalogue import DataError
from rade.data.files import RawFolder
from rade.data.tensors import Tables, choose_layout, clean_edges, one_graph

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
VALIDATION = 500  # the public split takes the 500 nodes after the labelled ones


def read_planetoid(raw: RawFolder) -> Tables:
    """Raw features, the citation graph and the public split."""
    contents = {part: raw.read(f"raw/ind.{raw.entry.folder.lower()}.{part}") for part in PARTS}  # all checked here
    allx, tx, y, ally, ty, graph = (_unpickle(contents[part]) for part in ("allx", "tx", "y", "ally", "ty", "graph"))
    test = np.array(contents["test.index"].split(), dtype=np.int64)
    # Row k of tx describes node test[k]. CiteSeer's test range has gaps: nodes without features or label, class 0.
    count = int(test.max()) + 1
    x = _place_rows(allx, tx, test, count)
    labels = np.zeros(count, dtype=np.int64)
    labels[: len(ally)] = ally.argmax(axis=1)
    labels[test] = ty.argmax(axis=1)
    source = np.repeat(np.fromiter(graph, np.int64), [len(links) for links in graph.values()])
    target = np.concatenate([np.asarray(links, dtype=np.int64) for links in graph.values()])
    train, val = torch.arange(len(y)), torch.arange(len(y), len(y) + VALIDATION)
    split = (train, val, torch.from_numpy(np.sort(test)))
    return one_graph(choose_layout(x), clean_edges(source, target, count), torch.from_numpy(labels), split)


def _place_rows(allx: sp.csr_matrix, tx: sp.csr_matrix, test: Any, count: int) -> sp.csr_matrix:
    first, second = allx.tocoo(), tx.tocoo()
    rows = np.concatenate([first.row, test[second.row]])
    columns = np.concatenate([first.col, second.col])
    values = np.concatenate([first.data, second.data])
    return sp.csr_matrix((values, (rows, columns)), shape=(count, allx.shape[1]))


class _Unpickler(pickle.Unpickler):
    """Second line of defence: knows the five classes of these files and nothing else."""

    known: Mapping[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],  # type: ignore[dict-item]
        ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
        ("collections", "defaultdict"): collections.defaultdict,
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise DataError(f"a Planetoid file asks for {module}.{name}, which no Planetoid file needs; it is refused")
        return self.known[module, name]


def _unpickle(content: bytes) -> Any:
    return _Unpickler(io.BytesIO(content), encoding="latin1").load()
