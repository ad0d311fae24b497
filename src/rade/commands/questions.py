"""The questions of `rade demo`: three that RADE is made for and a control, on data chosen by mechanism."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rade.train.protocol import toml

if TYPE_CHECKING:  # at run time where they are needed: help does not wait for PyTorch
    from rade.data import Dataset
    from rade.train.model import Trained

SeedScores = dict[str, float]  # of one seed, as fractions, by the row that they belong to


@dataclass(frozen=True)
class Question:
    """One panel.

    Attributes:
        title: what is asked about, in two words.
        data: what it is asked on, in words; dataset: the function below that makes it.
        rows: by name, the method and its settings, and what the model is tested on if that is another graph.
        reference: the row that the others are compared with.
        aside: rows that are shown for orientation and compared with nothing.
    """

    title: str
    data: str
    dataset: str
    rows: dict[str, dict[str, Any]]
    reference: str = "plain"
    aside: tuple[str, ...] = ()

    def answer(self, seed: int, epochs: int) -> SeedScores:
        """Test scores of a seed."""
        dataset = {"hubs": hubs, "rings": rings, "communities": communities}[self.dataset](seed)
        trained = cache(lambda **asked: train_gcn(dataset, seed, epochs, **asked))  # rows may share a model
        scores = {}
        for row, asked in self.rows.items():
            settings = {name: value for name, value in asked.items() if name != "tested"}
            model, score = trained(**settings)
            tested = asked.get("tested", "clean")
            scores[row] = score if tested == "clean" else score_on_wrong_edges(model, dataset, "denoised" in tested)
        return scores


QUESTIONS = tuple(
    Question(**{**values, "aside": tuple(values.get("aside", ()))})
    for values in toml(Path(__file__).with_suffix(".toml").read_text("utf-8"))["questions"]
)


def train_gcn(dataset: Dataset, seed: int, epochs: int, method: str, **asked: Any) -> tuple[Trained, float]:
    """A GCN trained by the data set's protocol with a method: the model at its best epoch, and its test score."""
    from rade.train.model import Trained
    from rade.train.run import train
    from rade.train.settings import resolve
    from rade.train.tasks import problem_of

    settings = resolve(dataset.name, "gcn", method, epochs=epochs, **asked)
    trained = Trained.fresh(dataset, settings, seed)
    record = train(problem_of(dataset, settings), trained.learner, settings, seed)
    return trained, record.test


def score_on_wrong_edges(trained: Trained, clean: Dataset, denoised: bool) -> float:
    """The accuracy on the test nodes where as many spurious edges as real ones were added."""
    import torch

    from rade import RADE, Constant, Expected, Graph, Rates, estimate_noise, sample_view

    data, split = clean.graphs[0], clean.split(trained.seed)
    graph = Graph.from_edge_index(data.edge_index, data.num_nodes)
    rates = Rates(0.0, graph.num_edges / graph.num_nonedges)
    given = data.x, sample_view(graph, rates, torch.Generator().manual_seed(trained.seed)).edge_index
    model = RADE(trained.learner.net, rule=Constant(0.0, 0.0)).eval()
    found = estimate_noise(model, *given, labels=data.y, rows=split.val).inference if denoised else Expected()
    with torch.no_grad():
        right = model.by(found)(*given).argmax(1) == data.y
    return float(right[split.test].double().mean())


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


def communities(seed: int) -> Dataset:
    """The embedded data set, another one for every seed."""
    from rade.data import load

    return load("csbm", seed=seed)
