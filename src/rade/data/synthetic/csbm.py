"""A citation-like node task: a stochastic block model whose nodes carry bags of words."""

import scipy.sparse as sp
import torch
from torch import Tensor

from rade.data.dataset import Dataset
from rade.data.edges import clean_edges
from rade.data.errors import DataError
from rade.data.features import choose_layout
from rade.data.splits import FixedSplit, Split
from rade.data.synthetic.common import synthetic_dataset
from rade.data.tables import one_graph


def csbm(
    nodes: int = 1500,
    classes: int = 5,
    degree: float = 5.0,
    homophily: float = 0.65,
    words: int = 300,
    topic: float = 0.1,
    background: float = 0.02,
    nuisance: int = 50,
    loudness: float = 2.0,
    labelled: int = 30,
    validation: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Contextual stochastic block model with loud noise: a plain GCN learns its few labels by heart from the noise.

    Classes are balanced. Of about nodes·degree/2 citations a fraction ``homophily`` stays within the class of the
    citing paper, the others go to another class at random. Each class owns words/classes words; a paper has each
    word of its class with probability ``topic`` and any other word with probability ``background``. Beside the words
    stand ``nuisance`` normal measurements of standard deviation ``loudness`` that say nothing of the class: they vary
    strongly from neighbor to neighbor, which is what a variance regulariser sees. With nuisance=0 there is nothing of
    the kind to suppress, and random views cost accuracy here.
    ``labelled`` papers per class are for training, a fraction ``validation`` of all papers for early stopping, the
    rest for the test.
    """
    options = dict(locals())
    held_out = round(nodes * validation)
    _validate(nodes, classes, homophily, words, labelled, held_out)
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    edge_index = _citations(y, classes, round(nodes * degree / 2), homophily, generator)
    x = _features(y, classes, (words, topic, background), (nuisance, loudness), generator)
    splits = FixedSplit(_split(y, classes, labelled, held_out, generator))
    return synthetic_dataset("csbm", one_graph(x, edge_index, y), splits, classes, options)


def _citations(y: Tensor, classes: int, count: int, homophily: float, generator: torch.Generator) -> Tensor:
    nodes = y.numel()
    source = torch.randint(nodes, (count,), generator=generator)
    other = torch.randint(1, classes, (count,), generator=generator) if classes > 1 else torch.zeros(count).long()
    leaves = torch.rand(count, generator=generator) >= homophily
    target_class = (y[source] + torch.where(leaves, other, 0)) % classes
    # The members of class c are c, c + classes, …: draw a rank among them.
    members = (nodes - target_class + classes - 1) // classes
    rank = (torch.rand(count, generator=generator, dtype=torch.float64) * members).long()
    return clean_edges(source.numpy(), (target_class + rank * classes).numpy(), nodes)


def _features(
    y: Tensor, classes: int, bag: tuple[int, float, float], noise: tuple[int, float], generator: torch.Generator
) -> Tensor:
    words, topic, background = bag
    own = (torch.arange(words) % classes) == y[:, None]  # [n, F]
    chance = torch.where(own, topic, background)
    present = torch.rand(chance.shape, generator=generator) < chance
    measured = noise[1] * torch.randn(y.numel(), noise[0], generator=generator)
    return choose_layout(sp.csr_matrix(torch.cat([present.float(), measured], dim=1).numpy()))


def _split(y: Tensor, classes: int, labelled: int, held_out: int, generator: torch.Generator) -> Split:
    order = torch.randperm(y.numel(), generator=generator)
    train = torch.cat([order[y[order] == c][:labelled] for c in range(classes)])
    rest = order[~torch.isin(order, train)]
    return Split(*(part.sort().values for part in (train, rest[:held_out], rest[held_out:])))


def _validate(nodes: int, classes: int, homophily: float, words: int, labelled: int, held_out: int) -> None:
    needed = classes * (labelled + 1) + held_out
    if nodes < needed or classes < 1 or words < classes:
        raise DataError(
            f"csbm needs nodes ≥ classes·(labelled + 1) + validation·nodes = {needed} and words ≥ classes ≥ 1, "
            f"got nodes={nodes}, classes={classes}, words={words}"
        )
    if not 0 <= homophily <= 1:
        raise DataError(f"csbm needs homophily in [0, 1], got {homophily}")
