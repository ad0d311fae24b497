"""Methods trained on clean graphs and scored on them and on damaged copies: edges missing, spurious ones added."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

from rade.data import Dataset
from rade.train.corruption import Corruption
from rade.train.run import load_run, split_of, train_run
from rade.train.settings import Settings
from rade.train.summary import Difference, Summary, paired
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
    +60.00 [-67.06, 187.06] +10.00 [10.00, 10.00]
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

    def interval(self, method: str, condition: str) -> Difference | None:
        """Mean over graphs with its 95 % interval (Student's t); None for a single graph."""
        values = np.asarray(self.scores[method][condition])
        if len(values) < 2:
            return None
        reach = float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
        return Difference(float(values.mean()), float(values.mean()) - reach, float(values.mean()) + reach)

    def difference(self, method: str, condition: str) -> Difference | None:
        """To the first method, graph by graph, with its 95 % interval."""
        one, other = (
            Summary(name, self.metric, self.scores[name][condition], "", 0.0) for name in (method, self.methods[0])
        )
        return paired(one, other)

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
