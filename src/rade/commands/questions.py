"""The questions of `rade demo`: three that RADE is made for and a control, on data chosen by mechanism, not score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time where they are needed: help does not wait for PyTorch
    from rade.data import Dataset
    from rade.train.model import Trained

# Half of the edges dropped and as many added: where the paper's rates start, and where uncorrected views fail Computer.
RATES = {"p": 0.5, "rho": 0.5}
PLAIN_RINGS = "plain (2 layers)"
SeedScores = dict[str, float]  # of one seed, as fractions, by the row that they belong to


@dataclass(frozen=True)
class Question:
    """One panel.

    Attributes:
        title: what is asked about, in two words.
        data: what it is asked on.
        answer: test scores of a seed; the rows of the panel are its keys.
        reference: the row that the others are compared with.
        aside: rows that are shown for orientation and compared with nothing.
    """

    title: str
    data: str
    answer: Callable[[int, int], SeedScores]
    reference: str = "plain"
    aside: tuple[str, ...] = ()


def alignment(seed: int, epochs: int) -> SeedScores:
    """Random views change what a node receives in the mean; at inference there are none. The correction undoes it."""
    dataset = hubs(seed)
    return {
        "plain": train_gcn(dataset, "none", seed, epochs)[1],
        "uncorrected views": train_gcn(dataset, "rade-of-uncorrected", seed, epochs, **RATES)[1],
        "RADE-OF": train_gcn(dataset, "rade-of-fixed", seed, epochs, **RATES)[1],
    }


def far_away(seed: int, epochs: int) -> SeedScores:
    """Two layers see two hops. RADE-OFS keeps the expected additions, so that every node reaches every other."""
    dataset = rings(seed)
    return {
        PLAIN_RINGS: train_gcn(dataset, "none", seed, epochs, layers=2)[1],
        "plain (5 layers)": train_gcn(dataset, "none", seed, epochs, layers=5)[1],
        "RADE-OF (2 layers)": train_gcn(dataset, "rade-of-fixed", seed, epochs, layers=2, **RATES)[1],
        "RADE-OFS (2 layers)": train_gcn(dataset, "rade-ofs-fixed", seed, epochs, layers=2, **RATES)[1],
    }


def wrong_edges(seed: int, epochs: int) -> SeedScores:
    """A plain model meets as many spurious edges as real ones; the validation labels tell how much to take off."""
    from rade.train.stages import Corruption

    clean = hubs(seed)
    noisy = Corruption(drop=0.0, add=1.0, seed=seed).of_dataset(clean)
    trained, score = train_gcn(clean, "none", seed, epochs)
    return {
        "plain (no wrong edges)": score,
        "plain": score_on(trained, noisy),
        "Denoised": score_on(trained.denoised(noisy, "auto")[0], noisy),
    }


def control(seed: int, epochs: int) -> SeedScores:
    """A sparse graph with communities, as it comes; nothing is missing, wrong or far away."""
    from rade.data import load

    dataset = load("csbm", seed=seed)
    return {
        "plain": train_gcn(dataset, "none", seed, epochs)[1],
        "DropEdge": train_gcn(dataset, "drop-edge", seed, epochs)[1],
        "RADE(model)": train_gcn(dataset, "rade", seed, epochs)[1],
        "RADE-OFS": train_gcn(dataset, "rade-ofs-fixed", seed, epochs, **RATES)[1],
    }


QUESTIONS = (
    Question("alignment", "dense graph with hubs; each view replaces half of its edges", alignment),
    Question("far away", "rings, the class is five hops away, chance is 20 %", far_away, PLAIN_RINGS),
    Question(
        "wrong edges",
        "dense graph with hubs; half of the edges are wrong at test time",
        wrong_edges,
        aside=("plain (no wrong edges)",),
    ),
    Question("control", "sparse graph with communities, nothing wrong with it", control),
)


def train_gcn(dataset: Dataset, method: str, seed: int, epochs: int, **asked: Any) -> tuple[Trained, float]:
    """A GCN trained by the data set's protocol with a method: the model at its best epoch, and its test score."""
    from rade.train.model import Trained
    from rade.train.run import train
    from rade.train.settings import resolve
    from rade.train.stages import problem_of

    settings = resolve(dataset.name, "gcn", method, epochs=epochs, **asked)
    trained = Trained.fresh(dataset, settings, seed)
    record = train(problem_of(dataset, settings), trained.learner, settings, seed)
    return trained, record.test


def score_on(trained: Trained, dataset: Dataset) -> float:
    """The accuracy on the test nodes of a data set."""
    from rade.train.stages import problem_of

    problem = problem_of(dataset, trained.settings)
    test = problem.split(trained.seed).test
    return problem.task.metric(trained.predict(dataset)[test], problem.labels[test])


def hubs(seed: int, nodes: int = 1000, degree: float = 40.0, homophily: float = 0.75, classes: int = 10) -> Dataset:
    """A block model made to resemble a co-purchase graph, Computer, in what the correction is about.

    Degrees: nodes are joined with probability ∝ w_i w_j, w log-normal with σ = 1, which is their spread on Computer.
    They have mean 30, median 20 and largest about 350 (there 36, 22 and 2992; a pair can be joined only once). A view
    adds as many edges to every node, and to one of few neighbors that is most of what it receives.
    Features: bags of words of which 35 % are set, in every class mostly the same ones, as on Computer; so random
    neighbors have a large mean. With csbm's sparse words and four classes, which were tried first, plain training and
    uncorrected views both reached 99.5 %, which shows nothing. These words were chosen without a score, by the shift
    that views make after one aggregation: its variance over nodes, divided by the variance between classes, is 6.3
    here, 2.9 with csbm's words and 8.4 on Computer.
    Ten classes, as there; nodes, homophily and labels are those of csbm.
    """
    import torch

    from rade.data.synthetic import Words, csbm

    words = Words(300, topic=0.5, background=1 / 3)
    dataset = csbm(nodes, classes, homophily=homophily, content=words, seed=seed)
    data, generator = dataset.graphs[0].clone(), torch.Generator().manual_seed(seed)
    weight = torch.randn(nodes, generator=generator).exp()
    weight = weight / weight.mean()
    same = data.y[:, None] == data.y
    affinity = torch.where(same, homophily * classes, (1 - homophily) * classes / (classes - 1))
    chance = degree / nodes * torch.outer(weight, weight) * affinity
    pairs = (torch.rand(nodes, nodes, generator=generator) < chance).triu(1).nonzero().T
    data.edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return replace(dataset, graphs=(data,), density=2 * pairs.size(1) / (nodes * (nodes - 1)))


def rings(seed: int) -> Dataset:
    """A hundred rings of ten nodes; every part of the split has as many of each class, so that 20 % is chance."""
    import torch

    from rade.data import FixedSplit, Split, load

    dataset = load("ring-transfer", rings=100, seed=seed)
    heads = torch.cat(astuple(dataset.split(run=0))).sort().values  # the nodes that must name a class
    by_class = heads[dataset.graphs[0].y[heads].argsort(stable=True)].view(dataset.classes, -1)
    parts = by_class.tensor_split((by_class.size(1) * 6 // 10, by_class.size(1) * 8 // 10), dim=1)
    return replace(dataset, splits=FixedSplit(Split(*(part.flatten() for part in parts))))
