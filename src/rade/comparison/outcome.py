"""What a comparison found: runs, paired differences, a sentence for each method of RADE, a table, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from rade.report.figures import draw_rows
from rade.report.judge import Verdict, correct, judge
from rade.report.words import duration, mean_std, p_value
from rade.statistics import Pair, Spread, best_common_epoch, many, signed, spread
from rade.train.record import RunRecord

PLAIN = "none"
LEGEND = "line: mean over runs; band: ± one standard deviation; dots: epochs that validation chose"
PANELS = {"val": "validation {}", "test": "test {}", "loss": "training loss", "p": "drop rate p", "q": "add rate q"}
# Of a run, for JSON.
RUN = ("method", "seed", "val", "test", "best_epoch", "epochs", "p", "q")


@dataclass(frozen=True)
class Comparison:
    """Runs of several methods on the same seeds and splits; ``str`` is the table and the verdict.

    Attributes:
        runs: every finished run, with scores at the epoch of its best validation score, and with its curves.
        reference: the method that all others are compared with: "none", or the first where it is missing.
        ratio: test over training items of random splits of the same graphs, 0 else (Nadeau and Bengio's correction).
        notes: what a reader should know: runs that failed, why there was one process.
        baselines: methods that are there to compare with, not asked about; the verdict leaves them out.
    """

    runs: tuple[RunRecord, ...] = field(repr=False)
    reference: str
    ratio: float = 0.0
    notes: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()

    @staticmethod
    def of(results: Mapping[str, Sequence[RunRecord]]) -> Comparison:
        """The runs of `rade train` by method, the first being the reference.

        Folds are scored at the same epoch, the best of their mean validation curve: the protocol of the TU sets.
        """
        reference, runs = next(iter(results)), [run for records in results.values() for run in records]
        if not runs[0].folds:
            return Comparison(tuple(runs), reference)
        scored = []
        for records in results.values():
            epoch, scores = best_common_epoch([record.history["val"] for record in records])
            for record, score in zip(records, scores):
                scored.append(record.model_copy(update={"val": score, "test": score, "best_epoch": epoch}))
        note = "Scores are those of the best epoch of the fold-averaged validation curve."
        return Comparison(tuple(scored), reference, notes=(note,))

    @property
    def metric(self) -> str:
        """The score, in a word."""
        return self.runs[0].metric

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """All methods that have a run, the reference first."""
        return tuple(dict.fromkeys([self.reference, *(run.method for run in self.runs)]))

    def scores(self, method: str) -> dict[int, float]:
        """Test scores in points (percent) by seed."""
        found = sorted((run.seed, 100 * run.test) for run in self.runs if run.method == method)
        if not found:
            raise KeyError(f"no run of {method!r}; there are {', '.join(self.methods)}")
        return dict(found)

    def spread(self, method: str) -> Spread:
        """Mean and standard deviation of the test scores, in points."""
        return spread(list(self.scores(method).values()))

    @cached_property
    def differences(self) -> Mapping[str, Verdict]:
        """Every other method against the reference, on the seeds that both have, in points; ``str`` is a sentence."""
        fractions: dict[str, dict[Pair, float]] = {}
        for run in self.runs:
            fractions.setdefault(run.method, {})[run.pair] = run.test
        rest = (fractions[self.reference], self.runs[0].folds, self.ratio)
        found = correct([judge(name, self._against, fractions[name], *rest) for name in self.methods[1:]])
        return {one.name: one for one in found}

    @property
    def _against(self) -> str:
        return "the plain model" if self.reference == PLAIN else self.reference

    @property
    def verdict(self) -> str:
        """One sentence for each method that was asked about; for baselines where there are no others."""
        if not self.differences and len(self.methods) > 1:
            return "No two methods share a seed, so there is nothing to compare."
        asked = [one for method, one in self.differences.items() if method not in self.baselines]
        return "\n".join(map(str, asked or self.differences.values()))

    def table(self) -> str:
        """One line per method: score, difference with its interval, p after Holm, rates at the end, time for a run."""
        head = ("method", self.metric, f"against {self.reference}", "95 % interval", "p (Holm)", "rates p, q", "a run")
        columns = [column for column in zip(head, *map(self._line, self.methods)) if any(column[1:])]
        padded = ([cell.ljust(max(map(len, column))) for cell in column] for column in columns)
        return "\n".join("  ".join(line).rstrip() for line in zip(*padded))

    def _line(self, method: str) -> tuple[str, ...]:
        last = [(run.p, run.q, run.timing.seconds) for run in self.runs if run.method == method]
        p, q, seconds = (fmean(values) for values in zip(*last))
        rates = "–" if p == q == 0 else f"{p:.2g}, {q:.2g}"
        one = self.differences.get(method)
        gap = (signed(one.result.mean), one.result.interval, p_value(one.adjusted)) if one else ("", "", "")
        return (method, mean_std(self.spread(method)), *gap, rates, duration(seconds))

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.table(), self.verdict, *self.notes]))

    def plot(self) -> Any:
        """A matplotlib figure: every run's difference to the reference, the mean and its 95 % interval."""
        from matplotlib.figure import Figure

        base, rows = self.scores(self.reference), {}
        for method, one in self.differences.items():
            rows[method] = [gain - base[seed] for seed, gain in self.scores(method).items() if seed in base], one.result
        figure = Figure(figsize=(7, 1.2 + 0.5 * len(rows)), layout="constrained")
        panel = figure.subplots()
        panel.axvline(0, color="0.5", linewidth=1)
        draw_rows(panel, rows, {method: f"C{number}" for number, method in enumerate(rows)})
        panel.set_xlabel(f"{self.metric}: points above {self._against} (dots: seeds, bar: 95 % interval of the mean)")
        return figure

    def curves(self) -> Any:
        """A matplotlib figure: scores, training loss and rates over epochs, with the chosen epoch of every run.

        Test curves only where they were recorded, the test scores of chosen epochs always.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(17, 3.8), layout="constrained")
        for panel, (name, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items()):
            for number, method in enumerate(self.methods):
                runs, color = [run for run in self.runs if run.method == method], f"C{number}"
                curves = [run.history[name] for run in runs if run.history.get(name)]
                _draw(panel, curves, method, color)
                if name in ("val", "test"):
                    epochs, scores = [run.best_epoch for run in runs], [getattr(run, name) for run in runs]
                    label = None if curves else method
                    panel.plot(epochs, scores, "o", color=color, markersize=4, markeredgecolor="white", label=label)
            panel.set_title(title.format(self.metric))
            panel.set_xlabel("epoch")
            panel.grid(alpha=0.3)
        figure.axes[0].legend()
        settings, count = self.runs[0].settings, many(len(self.scores(self.reference)), "run")
        title = f"{settings['dataset']}, {settings['backbone']}, {count} per method ({LEGEND})"
        figure.suptitle(title, fontsize="medium")
        return figure

    def asdict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        spreads = {method: self.spread(method) for method in self.methods}
        scores = {method: {"mean": found.mean, "std": found.std} for method, found in spreads.items()}
        gaps = {}
        for method, one in self.differences.items():
            told = {"seeds": one.result.count, "adjusted": one.adjusted, "verdict": one.code, "sentence": str(one)}
            gaps[method] = {name: getattr(one.result, name) for name in ("mean", "low", "high", "p")} | told
        runs = [{**{name: getattr(run, name) for name in RUN}, "seconds": run.timing.seconds} for run in self.runs]
        rest = {"reference": self.reference, "differences": gaps, "verdict": self.verdict, "notes": list(self.notes)}
        return {"metric": self.metric, "scores": scores, "runs": runs, **rest}


def _draw(panel: Any, curves: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Runs stop at different epochs: each keeps its last value up to the longest."""
    if not curves:
        return
    length = max(len(curve) for curve in curves)
    table = np.array([np.pad(np.asarray(curve, float), (0, length - len(curve)), mode="edge") for curve in curves])
    epochs, mean, band = np.arange(1, length + 1), table.mean(0), table.std(0, ddof=min(1, len(curves) - 1))
    panel.plot(epochs, mean, color=color, label=label, linewidth=1.2)
    panel.fill_between(epochs, mean - band, mean + band, color=color, alpha=0.15, linewidth=0)
