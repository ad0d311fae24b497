"""`load`: a data set by name, from the data folder, from the network, or generated."""

import os
import zipfile
import zlib
from typing import Any

from rade.data.catalogue import DataError, Entry, resolve
from rade.data.dataset import Dataset, FixedSplit, Provenance, RandomSplit, Split, Splits, StratifiedFolds, assemble
from rade.data.files import RawFolder, data_root, fetch, missing_files, missing_sentence
from rade.data.readers import READERS
from rade.data.synthetic import GENERATORS
from rade.data.tensors import Tables

# What readers raise on a file that is not what it should be.
UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, NotImplementedError, zlib.error)
_AGAIN = "delete the file and import or download it again"


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """The data set of a name, from the data folder, from the network, or generated.

    ``options`` are the arguments of a synthetic generator.

    >>> load("csbm", nodes=300).graphs[0].num_nodes
    300
    """
    entry = resolve(name)
    if entry.embedded:
        return GENERATORS[entry.name](**options)
    if options:
        raise DataError(f"{entry.title} has a fixed content; the options {sorted(options)} are for synthetic data sets")
    raw = RawFolder(data_root(root), entry)
    missing = missing_files(entry.name, raw.root)
    if missing and not download:
        raise DataError(missing_sentence(entry, raw.root, missing))
    if missing:
        fetch(entry, raw.root)
    tables = _read(raw)
    provenance = Provenance(entry.source, entry.licence, dict(raw.seen))
    return assemble(entry, tables, _splits(entry, tables), provenance, entry.classes)


def _read(raw: RawFolder) -> Tables:
    """The tensors of a data set, of the sizes that it is known to have."""
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
    return tables


def _splits(entry: Entry, tables: Tables) -> Splits:
    if tables.splits:
        first, *others = (Split(*parts) for parts in tables.splits)
        return FixedSplit(first, tuple(others))
    return StratifiedFolds(tables.y) if entry.level == "graph" else RandomSplit(tables.y.size(0))
