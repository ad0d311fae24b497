"""Downloads through PyG's own classes and OGB's archives; only the files are fetched, our readers check them first."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rade.data.catalogue import Entry
from rade.data.errors import DataError
from rade.data.files.manifest import missing_files
from rade.data.files.raw import missing_sentence

OGB_ARCHIVES = {
    "ogbn-arxiv": ("http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip", "arxiv"),
    "ogbg-molhiv": ("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip", "hiv"),
}


def fetch(entry: Entry, root: Path) -> None:
    """Download a data set next to its place and move the files in one by one; what is there already stays."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".incoming-") as incoming:
            DOWNLOADS[entry.family](entry, Path(incoming))
            _move_in(Path(incoming) / entry.folder, root / entry.folder)
    except Exception as reason:  # whatever a network does: the user is told which files are needed, and why it failed
        missing = missing_files(entry.name, root)
        sentence = missing_sentence(entry, root, missing)
        raise DataError(f"{sentence} (the download failed: {type(reason).__name__}: {reason})") from None


def _move_in(incoming: Path, place: Path) -> None:
    for file in sorted(path for path in incoming.rglob("*") if path.is_file()):
        target = place / file.relative_to(incoming)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.replace(file, target)


def _pyg(cls: Any, root: Path, **attributes: str) -> Any:
    """Run only the download step of a PyG class: its constructor would also unpickle what came."""
    source = cls.__new__(cls)
    vars(source).update(root=str(root), **attributes)
    Path(source.raw_dir).mkdir(parents=True, exist_ok=True)
    source.download()
    return source


def _planetoid(entry: Entry, root: Path) -> None:
    from torch_geometric.datasets import Planetoid

    _pyg(Planetoid, root, name=entry.folder, split="public")


def _amazon(entry: Entry, root: Path) -> None:
    from torch_geometric.datasets import Amazon

    _pyg(Amazon, root, name=entry.folder.lower())


def _coauthor(entry: Entry, root: Path) -> None:
    from torch_geometric.datasets import Coauthor

    _pyg(Coauthor, root, name=entry.folder)


def _flickr(entry: Entry, root: Path) -> None:
    from torch_geometric.datasets import Flickr

    _pyg(Flickr, root / entry.folder)


def _tu(entry: Entry, root: Path) -> None:
    from torch_geometric.datasets import TUDataset

    _pyg(TUDataset, root, name=entry.folder, cleaned="")


def _ogb(entry: Entry, root: Path) -> None:
    from torch_geometric.data import download_url, extract_zip

    url, folder = OGB_ARCHIVES[entry.name]
    archive = download_url(url, str(root))
    extract_zip(archive, str(root))
    (root / folder).rename(root / entry.folder)


def _peptides(entry: Entry, root: Path) -> None:
    from torch_geometric.datasets import LRGBDataset

    from rade.data.readers.peptides import repack

    source = _pyg(LRGBDataset, root, name=entry.folder)
    repack(Path(source.raw_dir), root / entry.folder / "source")


DOWNLOADS: Mapping[str, Callable[[Entry, Path], None]] = {
    "planetoid": _planetoid,
    "amazon": _amazon,
    "coauthor": _coauthor,
    "flickr": _flickr,
    "tu": _tu,
    "ogb-node": _ogb,
    "ogb-graph": _ogb,
    "peptides": _peptides,
}
