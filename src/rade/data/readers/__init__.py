"""One reader per file family: checked raw files in, plain tensors out."""

from collections.abc import Callable, Mapping

from rade.data.files.raw import RawFolder
from rade.data.readers.flickr import read_flickr
from rade.data.readers.heterophilous import read_heterophilous
from rade.data.readers.npz import read_npz
from rade.data.readers.ogb import read_ogb_graphs, read_ogb_nodes
from rade.data.readers.peptides import read_peptides
from rade.data.readers.perturbed import read_perturbed
from rade.data.readers.planetoid import read_planetoid
from rade.data.readers.structure import read_structure
from rade.data.readers.tu import read_tu
from rade.data.tables import Tables

Reader = Callable[[RawFolder], Tables]

READERS: Mapping[str, Reader] = {
    "planetoid": read_planetoid,
    "coauthor": read_npz,
    "amazon": read_npz,
    "flickr": read_flickr,
    "ogb-node": read_ogb_nodes,
    "ogb-graph": read_ogb_graphs,
    "tu": read_tu,
    "peptides": read_peptides,
    "heterophilous": read_heterophilous,
    "perturbed": read_perturbed,
    "structure": read_structure,
}

__all__ = ["READERS", "Reader"]
