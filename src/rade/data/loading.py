"""`load`: a data set by name, from the data folder, from the network, or generated."""

import os
from typing import Any

from rade.data.catalogue import DataError, Entry, resolve
from rade.data.dataset import Dataset, Provenance, assemble
from rade.data.fetching import fetch
from rade.data.files import RawFolder, data_root, missing_files, missing_sentence
from rade.data.readers import READERS
from rade.data.splits import FixedSplit, NumberedSplits, RandomSplit, Split, Splits, StratifiedFolds
from rade.data.synthetic import generate
from rade.data.tensors import Tables


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
        return generate(entry, options)
    if options:
        raise DataError(f"{entry.title} has a fixed content; the options {sorted(options)} are for synthetic data sets")
    raw = RawFolder(data_root(root), entry)
    missing = missing_files(entry.name, raw.root)
    if missing and not download:
        raise DataError(missing_sentence(entry, raw.root, missing))
    if missing:
        fetch(entry, raw.root)
    tables = READERS[entry.family](raw)
    _require_content(entry, tables)
    provenance = Provenance(entry.source, entry.licence, dict(raw.seen))
    return assemble(entry, tables, _splits(entry, tables), provenance, entry.classes)


def _splits(entry: Entry, tables: Tables) -> Splits:
    fixed = tuple(Split(*parts) for parts in tables.splits)
    if fixed:
        return FixedSplit(fixed[0]) if len(fixed) == 1 else NumberedSplits(fixed)
    return StratifiedFolds(tables.y) if entry.level == "graph" else RandomSplit(tables.y.size(0))


def _require_content(entry: Entry, tables: Tables) -> None:
    """Refuse a file whose content is not the data set's: the bytes of a public packing are not known beforehand."""
    found = (len(tables.node_ptr) - 1, int(tables.node_ptr[-1]), tables.edge_index.size(1) // 2, tables.x.size(1))
    expected = (entry.graphs, entry.nodes, entry.edges, entry.features)
    way_out = "delete the file and import or download it again"
    if found != expected:
        raise DataError(
            f"{entry.title} should have (graphs, nodes, edges, features) = {expected}, its file has {found}; {way_out}"
        )
    try:
        known = tables.digest() == entry.content
    except IndexError:  # a split that names what is not there
        known = False
    if not known:
        raise DataError(f"{entry.title} has the right sizes but other labels, degrees or splits; {way_out}")
