"""Data sets by name."""

import os
from typing import Any

from rade.data.catalogue import Entry, resolve
from rade.data.content import require_known
from rade.data.dataset import Dataset, Provenance
from rade.data.errors import DataError
from rade.data.files.cache import read_cache, write_cache
from rade.data.files.download import fetch
from rade.data.files.manifest import missing_files
from rade.data.files.raw import RawFolder, missing_sentence
from rade.data.files.root import data_root
from rade.data.graphs import GraphList, node_data
from rade.data.readers import READERS
from rade.data.splits import FixedSplit, NumberedSplits, RandomSplit, Split, Splits, StratifiedFolds
from rade.data.synthetic import generate
from rade.data.tables import Tables


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    verify: bool = True,
    **options: Any,
) -> Dataset:
    """The data set of a name, from the data root, from the network, or generated.

    ``verify=False`` accepts raw files with other bytes than the manifest's, pickles excepted.
    ``options`` are the arguments of a synthetic generator.

    >>> load("csbm", nodes=300).graphs[0].num_nodes
    300
    """
    entry = resolve(name)
    if entry.embedded:
        return generate(entry, options)
    if options:
        raise DataError(f"{entry.title} has a fixed content; the options {sorted(options)} are for synthetic data sets")
    raw = RawFolder(data_root(root), entry, verify)
    return _assemble(raw, _tables(raw, download))


def _tables(raw: RawFolder, download: bool) -> Tables:
    missing = missing_files(raw.entry.name, raw.root)
    if missing and not download:
        raise DataError(missing_sentence(raw.entry, raw.root, missing))
    if missing:
        fetch(raw.entry, raw.root)
    cached = read_cache(raw)
    if cached is not None:
        return cached
    tables = READERS[raw.entry.family](raw)
    if raw.verify:
        require_known(raw.entry, tables)
    write_cache(raw, tables)
    return tables


def _assemble(raw: RawFolder, tables: Tables) -> Dataset:
    entry = raw.entry
    return Dataset(
        name=entry.name,
        level=entry.level,
        graphs=GraphList(tables) if entry.level == "graph" else (node_data(tables),),
        metric=entry.metric,
        loss=entry.loss,
        classes=entry.classes,
        features=tables.x.size(1),
        encoder=entry.encoder,
        provenance=Provenance(entry.source, entry.licence, dict(raw.seen)),
        splits=_splits(entry, tables),
        density=tables.density(),
    )


def _splits(entry: Entry, tables: Tables) -> Splits:
    fixed = tuple(Split(*parts) for parts in tables.splits)
    if fixed:
        return FixedSplit(fixed[0]) if len(fixed) == 1 else NumberedSplits(fixed)
    if entry.level == "graph":
        return StratifiedFolds(tables.y)
    return RandomSplit(tables.y.size(0))
