"""Graphs with wrong edges: how many are spurious, and how far single ones are trusted by the features of their ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch_geometric.data import Data

from rade.distribution import Rates, Trust
from rade.graph.graph import Graph
from rade.graph.sparse import is_sparse
from rade.wrapper.inference import Denoised
from rade.wrapper.module import RADE

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
CHUNK = 20_000  # pairs at a time: the features of both ends are gathered
EACH = 32  # random partners of every node
PRIOR = 0.1  # weight of the common mean in the estimate for one node, in which 32 partners leave much chance
LOW, HIGH = 20, 11  # bins by the quantiles of random pairs, and equal ones beyond the last of them
PSEUDO = 0.5  # an empty bin says "few", not "none"
NEARLY_ALL = 0.99


@torch.no_grad()
def estimate_noise(
    model: RADE,
    *args: object,
    labels: Tensor,
    rows: Tensor,
    shares: Sequence[float] = SHARES,
    by_edge: bool = True,
    **kwargs: object,
) -> NoiseEstimate:
    """The noise of a graph with which a trained model predicts validation rows best; evaluation passes only.

    A guess other than "no noise" must beat it by one standard error of the paired difference. Edges count as missing
    nowhere: with spurious ones about, making up for missing ones was seen to harm.

    Args:
        model: in evaluation mode; a model that was never trained with RADE comes as ``RADE(net, rule=Constant(0, 0))``.
        args, kwargs: what the model's forward takes.
        labels: of all rows: classes [n], or targets as the model's outputs are shaped, of which those above ½ count.
        rows: the validation rows, int64 ids or a bool mask.
        shares: guesses of the share of spurious edges.
        by_edge: also try trust in single edges, by the cosine of the features where the model has features of nodes.
    """
    if not isinstance(model, RADE):
        raise TypeError(
            f"estimate_noise needs a model in RADE, got {type(model).__name__}: "
            "rade.RADE(net, rule=rade.Constant(0, 0)).eval()"
        )
    if model.training:
        raise RuntimeError("estimate_noise needs a trained model in evaluation mode: call model.eval() first")
    with model._repeating(args, kwargs) as call:
        graph = call.graph()
    if len(rows) == 0 or (rows.dtype == torch.bool and not bool(rows.any())):
        raise ValueError("rows must hold at least one validation row, got none")
    if len(labels) != graph.num_nodes:
        raise ValueError(f"labels must have one row for each of the {graph.num_nodes} nodes, got {len(labels)}")
    x = _features(args, kwargs, graph.num_nodes) if by_edge and graph.num_edges > 0 else None
    evidence = None if x is None else FeatureEvidence.of(graph, x)
    guesses = []
    for guess in _candidates(graph, sorted({0.0, *shares}), evidence):
        logits = model.by(guess.inference)(*args, **kwargs)
        guesses.append(replace(guess, right=rightly(logits, labels)[rows]))
    return NoiseEstimate(tuple(guesses))


def _features(args: tuple[object, ...], kwargs: dict[str, object], nodes: int) -> Tensor | None:
    """The features of nodes among the arguments of a call: a matrix with a row for each."""
    given = [value.x if isinstance(value, Data) else value for value in (kwargs.get("x"), *args, *kwargs.values())]
    matrices = (x for x in given if isinstance(x, Tensor) and x.dim() == 2 and len(x) == nodes)
    return next((x for x in matrices if x.is_floating_point()), None)


def _candidates(graph: Graph, shares: Sequence[float], evidence: FeatureEvidence | None) -> Iterator[Guess]:
    """From no noise to much, the first of equals is taken; by features also at the share that they tell."""
    for share in sorted({*shares, *([] if evidence is None else [evidence.told])}):
        if share in shares:
            yield Guess(graph, share)
        if share > 0.0 and evidence is not None:
            yield Guess(graph, share, evidence)


@dataclass(frozen=True, eq=False)
class Guess:
    """A guess of a graph's noise that was tried on validation rows."""

    graph: Graph
    share: float  # of observed edges that are spurious
    evidence: FeatureEvidence | None = None  # by which edges are trusted; None: all alike
    right: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows] which the model predicts rightly with it

    @property
    def score(self) -> float:
        """On validation rows."""
        return float(self.right.mean())

    @property
    def rates(self) -> Rates:
        """The rates of missing and of spurious edges."""
        return rates_of(self.graph, self.share)

    @property
    def inference(self) -> Denoised:
        """How to predict by it; built anew, because the weights of all guesses would fill the memory."""
        return Denoised(self.rates) if self.evidence is None else Denoised(self.rates, self.evidence.trust(self.share))


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """What noise a graph has, by validation: use it as ``model.by(estimate.inference)`` or ``RADE(noise=rates)``.

    Attributes:
        guesses: all that were tried, "no noise" first.
    """

    guesses: tuple[Guess, ...]

    @cached_property
    def chosen(self) -> Guess:
        """The best score; another guess than "no noise" must beat that by one standard error."""
        best, none = max(self.guesses, key=lambda guess: guess.score), self.guesses[0]
        gain, error = paired_gain(best.right, none.right)
        return best if gain > error else none

    @cached_property
    def inference(self) -> Denoised:
        """How to predict on this graph."""
        return self.chosen.inference

    @property
    def rates(self) -> Rates:
        """The rates of missing and of spurious edges."""
        return self.chosen.rates

    @property
    def interval(self) -> tuple[float, float]:
        """Least and largest share whose score cannot be told from the best (two standard errors of the difference).

        Wide on few validation rows, or where noise does not matter.
        """
        kind = self.chosen.evidence
        comparable = [guess for guess in self.guesses if guess.evidence is kind or guess.share == 0.0]
        differences = [(guess.share, *paired_gain(self.chosen.right, guess.right)) for guess in comparable]
        close = [share for share, gain, error in differences if gain <= 2.0 * error]
        return min(close), max(close)

    def __str__(self) -> str:
        (low, high), chosen, rates = self.interval, self.chosen, self.rates
        every = low == 0.0 and high == max(guess.share for guess in self.guesses)
        sure = "as any other share does" if every and high > 0.0 else f"{low:.0%} to {high:.0%} do as well"
        how = "all trusted alike" if chosen.evidence is None else "trusted by similarity of features"
        return (
            f"{chosen.share:.0%} of the observed edges spurious fits best ({sure}), {how}; "
            f"p = {rates.p:g}, q = {rates.q:.3g}; validation score {chosen.score:.1%}"
        )


def rightly(logits: Tensor, labels: Tensor) -> Tensor:
    """Which rows are predicted rightly, [n]; of several targets the share. One output per row is a yes or no."""
    if logits.dim() == 1 or logits.shape[1] == 1 or labels.shape == logits.shape:
        return ((logits > 0) == (labels.reshape(logits.shape) > 0.5)).float().view(len(logits), -1).mean(1)
    if labels.dim() != 1:
        raise ValueError(
            f"labels must be classes [n], or targets of the outputs' shape {list(logits.shape)}; "
            f"got {list(labels.shape)}"
        )
    return (logits.argmax(1) == labels).float()


def paired_gain(one: Tensor, other: Tensor) -> tuple[float, float]:
    """Mean difference of two sets of scores of the same rows, and its standard error."""
    difference = (one - other).double()
    return float(difference.mean()), float(difference.std(correction=0)) / max(len(difference), 1) ** 0.5


def rates_of(graph: Graph, share: float) -> Rates:
    """The rates that make ``share`` of the observed edges spurious, where none of the real ones is missing.

    >>> circle = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    >>> rates_of(Graph.from_edge_index(torch.cat([circle, circle.flip(0)], 1)), share=0.2)
    Rates(p=0.0, q=0.16666666666666666)
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"the share of spurious edges must lie in [0, 1), got {share:g}")
    clean = graph.num_edges * (1.0 - share)
    return Rates(0.0, min(share * graph.num_edges / max(graph.num_pairs - clean, 1.0), 1.0))


@dataclass(frozen=True, eq=False)
class FeatureEvidence:
    """Similarities of the features of a graph's edges as a mixture π f₀ + (1−π) f₁ of spurious and real ones.

    Spurious edges are as alike as random pairs are. Ready to give a trust for any share of noise.

    >>> graph = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    >>> FeatureEvidence.of(graph, torch.eye(4)).trust(0.0).edges
    tensor([1., 1., 1., 1.], dtype=torch.float64)
    """

    graph: Graph
    edges: Tensor  # [B] f, the share of observed edges in each bin of similarities
    random: Tensor  # [B] f₀, the share of random pairs
    edge_bins: Tensor  # [E]
    pair_bins: Tensor  # [P] of random partners
    owner: Tensor  # [P] the node whose partner it is

    @staticmethod
    def of(graph: Graph, x: Tensor) -> FeatureEvidence:
        """By the cosine of features [n, F], dense or sparse CSR; random pairs are the same for equal graphs."""
        pairs = _partners(graph, EACH, torch.Generator(graph.device).manual_seed(0))
        pattern, entries = graph.pattern, graph.entries
        joined = torch.stack([pattern.source[entries], pattern.target[entries]])  # both directions are one pair
        edges, random = cosine(x, joined)[graph.edge_of_entry].double(), cosine(x, pairs).double()
        bounds = _bounds(random)
        edge_bins, pair_bins = torch.bucketize(edges, bounds), torch.bucketize(random, bounds)
        f, random_f = (_shares(bins, len(bounds) + 1) for bins in (edge_bins, pair_bins))
        return FeatureEvidence(graph, f, random_f, edge_bins, pair_bins, pairs[0])

    @cached_property
    def told(self) -> float:
        """π, the share of spurious edges: the lowest f/f₀ among dissimilar pairs, where real edges are rarest.

        An upper bound in the limit, far above the truth where real edges often join dissimilar nodes. The lowest
        tenth is taken for the lowest, which would fall with the number of bins.
        """
        ratio = self.edges / self.random
        return round(float(torch.quantile(ratio[: max(len(ratio) // 2, 1)], 0.1).clamp(max=NEARLY_ALL)), 3)

    def trust(self, share: float) -> Trust:
        """P(real | similarity) as the weight of each edge if ``share`` of them are spurious, and what is left of noise.

        P = 1 − π f₀/f for each bin, made to rise with similarity. A spurious edge weighs E₀[P] on average, over random
        pairs; those of nodes that resemble many others weigh more, which is kept as a factor of either end. A real one
        weighs (E_f[P] − π E₀[P])/(1−π).
        """
        real = 1.0 - torch.cummin((share * self.random / self.edges).clamp(0.0, 1.0), 0)[0]
        # A sum of shares may be 1 and a rounding error.
        seen, spurious = (min(float(shares @ real), 1.0) for shares in (self.edges, self.random))
        mean = max((seen - share * spurious) / (1.0 - share), seen)  # less would be no mean: the share is too large
        return Trust(real[self.edge_bins], spurious, min(max(mean, spurious), 1.0), self._ends(real))

    def _ends(self, real: Tensor) -> Tensor:
        """How much more than others a node's random partners are trusted, mean 1, [n]."""
        nodes = self.graph.num_nodes
        total = real.new_zeros(nodes).index_add(0, self.owner, real[self.pair_bins])
        count = torch.bincount(self.owner, minlength=nodes)
        mean = total.sum() / count.sum()
        own = torch.where(count > 0, total / count.clamp(min=1), mean)
        ends = (own + PRIOR * mean) / (1.0 + PRIOR)
        return ends / ends.mean() if float(mean) > 0 else torch.ones_like(ends)


def _bounds(random: Tensor) -> Tensor:
    """Quantiles of random similarities, then equal steps up to 1, where there are hardly any."""
    steps = partial(torch.linspace, dtype=torch.double, device=random.device)
    thinned = random[:: -(-len(random) // 10_000_000)]  # torch.quantile takes no more
    low = torch.unique(torch.quantile(thinned, steps(0, 1, LOW + 1)[1:-1]))
    high = steps(float(low[-1]), max(1.0, float(random.max())), HIGH + 1)[1:-1]
    bounds: Tensor = torch.unique(torch.cat([low, high]))
    return bounds


def _shares(bins: Tensor, count: int) -> Tensor:
    found = torch.bincount(bins, minlength=count).double() + PSEUDO
    return found / found.sum()


def _partners(graph: Graph, each: int, generator: torch.Generator) -> Tensor:
    """``each`` random other nodes of the same graph for every node that has any, with repetition, [2, P]."""
    size, start = (values.repeat_interleave(graph.sizes) for values in (graph.sizes, graph.ptr[:-1]))
    first = (size > 1).nonzero().squeeze(1).repeat_interleave(each)
    size, start = size[first], start[first]
    step = torch.rand(len(first), generator=generator, dtype=torch.double, device=graph.device) * (size - 1)
    other = (first - start + 1 + torch.minimum(step.long(), size - 2)) % size + start
    pairs = torch.stack([first, other])
    return pairs if graph.by_graph is None else graph.by_graph[pairs]


def cosine(x: Tensor, pairs: Tensor) -> Tensor:
    """Cosine of the features of both ends, [P]; x [n, F] is dense or sparse CSR, pairs [2, P]; 0 for empty rows."""
    if is_sparse(x):
        return _sparse_cosine(x, pairs)
    unit = torch.nn.functional.normalize(x.float(), dim=1)
    return torch.cat([(unit[a] * unit[b]).sum(1) for a, b in torch.split(pairs, CHUNK, 1)])


def _sparse_cosine(x: Tensor, pairs: Tensor) -> Tensor:
    """The same by scipy, which gathers rows of a sparse matrix without the zeros."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.preprocessing import normalize

    parts = (part.cpu().numpy() for part in (x.values().double(), x.col_indices(), x.crow_indices()))
    unit = normalize(sp.csr_matrix(tuple(parts), shape=tuple(x.shape)))
    chunks = [chunk.numpy() for chunk in torch.split(pairs.cpu(), CHUNK, 1)]
    found = [np.asarray(unit[a].multiply(unit[b]).sum(1)).ravel() for a, b in chunks]
    return torch.from_numpy(np.concatenate(found)).float().to(pairs.device)
