"""Guesses of a graph's noise, tried on validation rows, and the estimate that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from rade.graph.graph import Graph
from rade.noise.evidence import Evidence
from rade.noise.shares import rates_of
from rade.view.rates import Rates
from rade.wrapper.inference import Denoised


@dataclass(frozen=True)
class Candidate:
    """One guess of the noise and how well the model predicts with it."""

    share: float  # of observed edges that are spurious
    drop: float  # rate at which real edges are missing
    by: str  # the similarity of their ends by which edges are trusted, or degrees; empty where all are trusted alike
    score: float  # on validation rows

    @property
    def by_edge(self) -> bool:
        """Whether edges are told apart."""
        return self.by != ""

    @property
    def is_none(self) -> bool:
        """Whether it says that there is no noise."""
        return self.share == self.drop == 0.0

    @property
    def how(self) -> str:
        """In words."""
        words = {"": "all trusted alike", "degrees": "more of them at nodes of high degree"}
        return words.get(self.by, f"trusted by similarity of {self.by}")


@dataclass(frozen=True, eq=False)
class Guess:
    """A guess that was tried: what it says, what it rests on, and which validation rows it has right."""

    candidate: Candidate
    graph: Graph
    evidence: Evidence | None
    right: Tensor  # [rows]

    @property
    def is_told(self) -> bool:
        """Whether its share is what its evidence tells without labels."""
        told = None if self.evidence is None else self.evidence.told
        return told is not None and self.candidate.share == round(told, 3)

    @property
    def inference(self) -> Denoised:
        """How to predict by it; built anew, because the weights of all guesses would fill the memory."""
        return inference_of(self.graph, self.candidate.share, self.candidate.drop, self.evidence)


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """What noise a graph has, by validation: use it as ``model.by(estimate.inference)`` or ``RADE(noise=rates)``.

    Attributes:
        guesses: all that were tried.
        similar: the share by similarities of edges alone, without labels: an upper bound, often far too large; None
            without features.
    """

    guesses: tuple[Guess, ...]
    similar: float | None

    @cached_property
    def best(self) -> Guess:
        """The best score; another guess than "no noise" must beat that by one standard error."""
        best = max(self.guesses, key=lambda guess: guess.candidate.score)
        none = next(guess for guess in self.guesses if guess.candidate.is_none)
        gain, error = paired_gain(best.right, none.right)
        return best if gain > error else none

    @property
    def worth_training(self) -> tuple[Guess, ...]:
        """For each kind of trust the best guess but "no noise", all edges alike first, and what similarities tell.

        A model that has learned from spurious edges is no judge of them; what labels do not tell is not led astray.
        """
        kinds = dict.fromkeys(guess.candidate.by for guess in self.guesses)
        noisy = [guess for guess in self.guesses if not guess.candidate.is_none]
        of_kind = [[guess for guess in noisy if guess.candidate.by == kind] for kind in kinds]
        best = [max(found, key=lambda guess: guess.candidate.score) for found in of_kind if found]
        return tuple(dict.fromkeys([*best, *(guess for guess in noisy if guess.is_told)]))

    @cached_property
    def inference(self) -> Denoised:
        """How to predict on this graph."""
        return self.best.inference

    @property
    def chosen(self) -> Candidate:
        """The guess it stands for."""
        return self.best.candidate

    @property
    def curve(self) -> tuple[Candidate, ...]:
        """All guesses with their scores."""
        return tuple(guess.candidate for guess in self.guesses)

    @property
    def interval(self) -> tuple[float, float]:
        """Least and largest share whose score cannot be told from the best (two standard errors of the difference).

        Wide on few validation rows, or where noise does not matter.
        """
        best = self.best
        comparable = [one for one in self.guesses if one.candidate.by == self.chosen.by or one.candidate.share == 0.0]
        alike = [one.candidate.share for one in comparable if _close(best.right, one.right)]
        return min(alike), max(alike)

    @property
    def rates(self) -> Rates:
        """The rates of missing and of spurious edges."""
        return rates_of(self.best.graph, self.chosen.share, self.chosen.drop)

    def among(self, *names: str) -> NoiseEstimate:
        """The estimate that trust by these similarities alone would give, with none: all edges trusted alike."""
        kept = tuple(guess for guess in self.guesses if guess.candidate.by in ("", *names))
        return NoiseEstimate(kept, self.similar)

    def __str__(self) -> str:
        low, high = self.interval
        rest = "" if self.similar is None else f"; by similarities alone at most {self.similar:.0%}"
        every = low == 0.0 and high == max(one.share for one in self.curve)
        sure = "as any other share does" if every and high > 0.0 else f"{low:.0%} to {high:.0%} do as well"
        return (
            f"{self.chosen.share:.0%} of the observed edges spurious fits best ({sure}), {self.chosen.how}; "
            f"p = {self.rates.p:g}, q = {self.rates.q:.3g}; validation score {self.chosen.score:.1%}{rest}"
        )


def inference_of(graph: Graph, share: float, drop: float, evidence: Evidence | None) -> Denoised:
    """How to predict by a guess."""
    rates = rates_of(graph, share, drop)
    return Denoised(rates) if evidence is None else Denoised(rates, evidence.trust(share))


def _close(best: Tensor, other: Tensor) -> bool:
    gain, error = paired_gain(best, other)
    return gain <= 2.0 * error


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
