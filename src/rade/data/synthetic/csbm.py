"""A citation-like node task: a stochastic block model whose nodes carry features of their class."""

from dataclasses import asdict, dataclass

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


@dataclass(frozen=True)
class Clouds:
    """Features that are normal with unit variance around a random point of norm ``signal`` per class."""

    features: int = 64
    signal: float = 1.0

    @property
    def width(self) -> int:
        """Number of features."""
        return self.features

    def draw(self, y: Tensor, classes: int, generator: torch.Generator) -> Tensor:
        """Features [n, F] of nodes of the classes y."""
        centre = torch.randn(classes, self.features, generator=generator)
        centre = self.signal * centre / centre.norm(dim=1, keepdim=True)
        x: Tensor = centre[y] + torch.randn(y.numel(), self.features, generator=generator)
        return x


@dataclass(frozen=True)
class Words:
    """Bags of words, which are sparse: each class owns words/classes of them, and a node has each word of its class
    with probability ``topic``, any other with ``background``.
    """

    words: int
    topic: float = 0.1
    background: float = 0.02

    @property
    def width(self) -> int:
        """Number of features."""
        return self.words

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
    content: Clouds | Words = Clouds(),  # noqa: B008 - a frozen value
) -> Dataset:
    """Contextual stochastic block model (Deshpande et al. 2018): communities, and features that are normal around them.

    The defaults were fixed before any model was trained on them, each for its reason, and are not to be tuned by what
    comes out:

    - ``nodes`` = 1000, ``classes`` = 4, balanced: round numbers at which a run takes seconds.
    - ``degree`` = 5: citation graphs have about 4 (Cora 3.9, CiteSeer 2.7, PubMed 4.5); rounded up.
    - ``homophily`` = 0.75: the share of edges inside a class, between CiteSeer's 0.74 and Cora's 0.81. The others go to
      another class at random.
    - ``content`` = `Clouds`, 64 features, signal 1: normal with unit variance around a random point per class. Weak:
      two classes are √2 apart, so that nobody tells them by features alone more often than Φ(√2/2) = 76 %.
    - ``labelled`` = 20 per class for training, as in the public splits of the citation graphs; ``validation`` = 0.3: of
      the others about one in three is for early stopping, as there, the rest for the test.

    With ``content`` = `Words(300)` the features are bags of that many words instead.
    """
    own = {name: value for name, value in locals().items() if name != "content"}
    options = own | {"features": 64, "signal": 1.0, "words": 0, "topic": 0.1, "background": 0.02} | asdict(content)
    held_out = round(nodes * validation)
    _validate(nodes, classes, homophily, content.width, labelled, held_out)
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    edge_index = _edges(y, classes, round(nodes * degree / 2), homophily, generator)
    x = content.draw(y, classes, generator)
    splits = FixedSplit(_split(y, classes, labelled, held_out, generator))
    return synthetic_dataset("csbm", one_graph(x, edge_index, y), splits, classes, options)


def _edges(y: Tensor, classes: int, count: int, homophily: float, generator: torch.Generator) -> Tensor:
    nodes = y.numel()
    source = torch.randint(nodes, (count,), generator=generator)
    other = torch.randint(1, classes, (count,), generator=generator) if classes > 1 else torch.zeros(count).long()
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


def _validate(nodes: int, classes: int, homophily: float, features: int, labelled: int, held_out: int) -> None:
    if not isinstance(labelled, int) or labelled < 1:
        raise DataError(
            f"csbm needs labelled, training nodes per class, as a whole number of at least 1, got {labelled!r}"
        )
    needed = classes * (labelled + 1) + held_out
    if nodes < needed or classes < 1 or features < classes:
        raise DataError(
            f"csbm needs nodes ≥ classes·(labelled + 1) + validation·nodes = {needed} and at least as many features or "
            f"words as classes ≥ 1, got nodes={nodes}, classes={classes}, {features} features"
        )
    if not 0 <= homophily <= 1:
        raise DataError(f"csbm needs homophily in [0, 1], got {homophily}")
