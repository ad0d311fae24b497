"""Methods trained on clean graphs and scored on them and on damaged copies: edges missing, spurious ones added."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from rade.data import Dataset
from rade.statistics import Pair, Paired, paired, paired_scores
from rade.train.corruption import Corruption
from rade.train.run import load_run, split_of, train_run
from rade.train.settings import Settings
from rade.train.task import Task

# Half of the edges in either direction: a round number, fixed before anything was run.
CONDITIONS: Mapping[str, Corruption] = {
    "clean": Corruption(),
    "half missing": Corruption(drop=0.5),
    "half spurious": Corruption(add=0.5),
}
Told = Callable[[str, int, Mapping[str, float]], None]


@dataclass(frozen=True)
class Stress:
    """Test scores of every method in every condition, graph by graph, as fractions: {method: {condition: scores}}.

    >>> study = Stress({"none": {"clean": (0.5, 0.7)}, "rade-of": {"clean": (0.6, 0.8)}}, "accuracy")
    >>> print(study.interval("none", "clean"), study.difference("rade-of", "clean"))
    +60.00 [−67.06, 187.06] +10.00
    """

    scores: Mapping[str, Mapping[str, tuple[float, ...]]]
    metric: str

    @property
    def methods(self) -> tuple[str, ...]:
        """In the order of training; the first is what the others are compared with."""
        return tuple(self.scores)

    @property
    def conditions(self) -> tuple[str, ...]:
        """In the order of scoring."""
        return tuple(self.scores[self.methods[0]])

    def interval(self, method: str, condition: str) -> Paired:
        """Mean over graphs in %, with its 95 % interval (Student's t) where there are several."""
        return paired([100 * score for score in self.scores[method][condition]])

    def difference(self, method: str, condition: str) -> Paired:
        """To the first method in points, graph by graph, with its 95 % interval."""
        found = paired_scores(self.by_graph(method, condition), self.by_graph(self.methods[0], condition))
        assert found is not None  # all methods have all graphs
        return found

    def by_graph(self, method: str, condition: str) -> dict[Pair, float]:
        """Scores by what two of them must share to be compared, for the judge."""
        return {(number, 0): score for number, score in enumerate(self.scores[method][condition])}

    def beside(self, other: "Stress") -> "Stress":
        """With the conditions of another study of the same methods."""
        return Stress({method: {**of, **other.scores[method]} for method, of in self.scores.items()}, self.metric)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = {method: {name: list(values) for name, values in of.items()} for method, of in self.scores.items()}
        return {"metric": self.metric, "scores": rows}


def stress(
    datasets: Sequence[Dataset],
    plans: Sequence[Settings],
    *,
    conditions: Mapping[str, Corruption] = CONDITIONS,
    told: Told = lambda method, number, scores: None,
) -> Stress:
    """Train every plan on every data set, run number = its position, and score the best epoch in every condition."""
    found: dict[str, dict[str, tuple[float, ...]]] = {plan.method: dict.fromkeys(conditions, ()) for plan in plans}
    for number, dataset in enumerate(datasets):
        for plan in plans:
            if plan.threads:
                torch.set_num_threads(plan.threads)
            with TemporaryDirectory() as folder:
                train_run(dataset, plan, number, Path(folder))
                scores = _scores(Path(folder), dataset, number, conditions)
            for condition, score in scores.items():
                found[plan.method][condition] += (score,)
            told(plan.method, number, scores)
    return Stress(found, datasets[0].metric)


def _scores(folder: Path, dataset: Dataset, number: int, conditions: Mapping[str, Corruption]) -> dict[str, float]:
    trained, task = load_run(folder), Task.of(dataset)
    test, labels = split_of(dataset, number, trained.settings.seed).test, dataset.graphs[0].y
    logits = {name: trained.predict(damage.of_dataset(dataset)) for name, damage in conditions.items()}
    return {name: task.metric(out[test], labels[test]) for name, out in logits.items()}
