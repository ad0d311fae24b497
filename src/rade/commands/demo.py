"""`rade demo`: a first look, on data that nobody chose for its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rade.statistics import Pair, Paired, number, paired, paired_scores, signed

if TYPE_CHECKING:  # at run time where they are needed: help does not wait for PyTorch
    from rich.table import Table

    from rade.data import Dataset
    from rade.report.judge import Verdict
    from rade.train.settings import Settings

METHODS = ("none", "dropout", "drop-edge", "rade-of", "rade-ofs")
FAR = "five hops away"
FAR_EPOCHS = 100  # all that learn it have by then
_WORDS = {
    "clean": "the graph of training",
    "half missing": "half of its edges removed at random",
    "half spurious": "half as many random edges added",
    FAR: "a class told by a node that two layers cannot see, on rings made for it; chance is 20",
}
# (drop, add): half of the edges in either direction, a round number, fixed before anything was run.
CONDITIONS = {"clean": (0.0, 0.0), "half missing": (0.5, 0.0), "half spurious": (0.0, 0.5)}
Told = Callable[[str, int, Mapping[str, float]], None]


def demo(
    graphs: Annotated[int, typer.Option(min=1, max=1000, help="Random graphs; every method is trained on each.")] = 10,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Most epochs; default: the protocol's 200, 100 on rings.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for demo.png and demo.json.")] = Path("demo"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Train a GCN in five ways on random graphs; score it there, where edges are missing or spurious, and far away.

    The graphs are contextual stochastic block models (`rade.data.csbm`) whose parameters were fixed before any model
    was trained on them; "five hops away" are rings (`rade.data.ring_transfer`), made for what two layers cannot see.
    What comes out is printed, whatever it is. Takes under two minutes on two cores.

    Examples:

        rade demo

        rade demo --graphs 3 --out somewhere
    """
    import json as format

    from rich.console import Console

    from rade.commands.display import printable
    from rade.data import load
    from rade.train.files import ensure_writable, save_json
    from rade.train.settings import make_order

    near = make_order({"dataset": "csbm", "method": list(METHODS)} | ({"epochs": epochs} if epochs else {}))
    short = min(epochs or FAR_EPOCHS, FAR_EPOCHS)
    far = make_order({"dataset": "ring-transfer", "method": list(METHODS), "layers": 2, "epochs": short})
    ensure_writable(out)  # before a minute of training, not after
    started = time.monotonic()

    def tell(line: str) -> None:
        if not json:
            typer.echo(line)

    tell(f"{graphs} random graphs with communities, a GCN trained on each in {len(METHODS)} ways; scores are")
    tell("test accuracy in %: " + ", ".join(f"{name} = {_WORDS[name]}" for name in CONDITIONS))
    tell(f"then {graphs} sets of 100 rings, a GCN of two layers: {FAR} = {_WORDS[FAR]}")

    def told(method: str, number: int, scores: Mapping[str, float]) -> None:
        shown = ", ".join(f"{name} {100 * score:.1f}" for name, score in scores.items())
        tell(f"graph {number + 1}, {method}: {shown}")

    study = stress([load("csbm", seed=number) for number in range(graphs)], near.settings, told=told).beside(
        stress([_rings(number) for number in range(graphs)], far.settings, {FAR: (0.0, 0.0)}, told=told)
    )
    picture = out / "demo.png"
    draw(study, picture)
    save_json(out / "demo.json", study.to_json())
    if json:
        typer.echo(format.dumps({**study.to_json(), "picture": str(picture)}, indent=1))
        return
    printable(Console(highlight=False)).print(_table(study))
    for line in verdicts(study):
        typer.echo(line)
    typer.echo(f"picture: {picture}, numbers: {out / 'demo.json'} ({time.monotonic() - started:.0f} s)")


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

    def beside(self, other: Stress) -> Stress:
        """With the conditions of another study of the same methods."""
        return Stress({method: {**of, **other.scores[method]} for method, of in self.scores.items()}, self.metric)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = {method: {name: list(values) for name, values in of.items()} for method, of in self.scores.items()}
        return {"metric": self.metric, "scores": rows}


def stress(
    datasets: Sequence[Dataset],
    plans: Sequence[Settings],
    conditions: Mapping[str, tuple[float, float]] = CONDITIONS,
    told: Told = lambda method, number, scores: None,
) -> Stress:
    """Train every plan on every data set, run number = its position, and score the best epoch in every condition."""
    import torch

    from rade.train.run import load_run, train_run
    from rade.train.stages import Corruption, split_of, task_of

    found: dict[str, dict[str, tuple[float, ...]]] = {plan.method: dict.fromkeys(conditions, ()) for plan in plans}
    for position, dataset in enumerate(datasets):
        damaged = {name: Corruption(*rates).of_dataset(dataset) for name, rates in conditions.items()}
        labels = dataset.graphs[0].y
        for plan in plans:
            if plan.threads:
                torch.set_num_threads(plan.threads)
            with TemporaryDirectory() as folder:
                train_run(dataset, plan, position, Path(folder))
                trained = load_run(folder)
            test = split_of(dataset, position, plan.seed).test
            metric = task_of(dataset).metric
            scores = {name: metric(trained.predict(data)[test], labels[test]) for name, data in damaged.items()}
            for condition, score in scores.items():
                found[plan.method][condition] += (score,)
            told(plan.method, position, scores)
    return Stress(found, datasets[0].metric)


def _rings(seed: int) -> Dataset:
    """A hundred rings, split so that every part has as many of each class: a model that hears nothing is at chance."""
    import torch

    from rade.data import Split, load
    from rade.data.splits import FixedSplit

    dataset = load("ring-transfer", rings=100, seed=seed)
    heads = torch.cat(astuple(dataset.split(run=0))).sort().values  # the nodes that must name a class
    by_class = heads[dataset.graphs[0].y[heads].argsort(stable=True)].view(dataset.classes, -1)
    parts = by_class.tensor_split((by_class.size(1) * 6 // 10, by_class.size(1) * 8 // 10), dim=1)
    return replace(dataset, splits=FixedSplit(Split(*(part.flatten() for part in parts))))


def _table(study: Stress) -> Table:
    """A row per method: the mean, and the difference to the first method with its interval."""
    from rich.table import Table

    title = f"{study.metric} in %, and the difference to {study.methods[0]} [95 %]"
    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for condition in study.conditions:
        table.add_column(condition, justify="right", no_wrap=True)
    for method in study.methods:
        table.add_row(method, *(_cell(study, method, condition) for condition in study.conditions))
    return table


def _cell(study: Stress, method: str, condition: str) -> str:
    scores, first = study.scores[method][condition], method == study.methods[0]
    mean = f"{100 * sum(scores) / len(scores):.1f}"
    band = study.interval(method, condition) if first else study.difference(method, condition)
    head = mean if first else f"{mean}, {signed(band.mean, 1)}"
    return head if band.low is None else f"{head}\n[{number(band.low, 1)}, {number(band.high, 1)}]"


def verdicts(study: Stress) -> list[str]:
    """In words: where a method differs from the first one, all differences shown being one family (Holm)."""
    from rade.report.judge import correct, judge

    first, asked = study.methods[0], [(method, name) for method in study.methods[1:] for name in study.conditions]
    found = [judge(method, first, study.by_graph(method, at), study.by_graph(first, at)) for method, at in asked]
    judged = dict(zip(asked, correct([one for one in found if one is not None]), strict=True))
    lines = []
    for method in study.methods[1:]:
        sides: dict[str, list[str]] = {}
        for condition in study.conditions:
            sides.setdefault(_side(judged[method, condition]), []).append(condition)
        told = "; ".join(f"{side}: {', '.join(names)}" for side, names in sorted(sides.items()))
        lines.append(f"{method} against {first}: {told}")
    return [*lines, f"{len(asked)} differences, judged together: p < 0.05 after Holm."]


def _side(one: Verdict) -> str:
    """The verdict in a few words; what is the same in every graph has no interval and is not judged."""
    from rade.report.judge import UNJUDGED, WORDS

    if one.code != UNJUDGED or one.result.count == 1:
        return WORDS[one.code]
    mean = number(one.result.mean)
    return "equal in every graph" if mean == number(0.0) else f"{signed(one.result.mean, 1)} in every graph"


def draw(study: Stress, path: Path) -> None:
    """A panel per condition: every method's mean with its 95 % interval, and the single graphs as dots."""
    from matplotlib.figure import Figure

    from rade.train.files import write_whole

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, len(study.conditions), sharey=True, squeeze=False)[0]
    for panel, condition in zip(panels, study.conditions):
        for height, method in enumerate(study.methods):
            scores = [100 * score for score in study.scores[method][condition]]
            panel.plot(scores, [height] * len(scores), ".", color=f"C{height}", alpha=0.35)
            band = study.interval(method, condition)
            mean = sum(scores) / len(scores)
            reach = 0.0 if band.low is None or band.high is None else (band.high - band.low) / 2
            panel.errorbar(mean, height, xerr=reach, fmt="o", color=f"C{height}", capsize=4)
            if height == 0:
                panel.axvline(mean, color="C0", linewidth=0.8, linestyle=":")
        panel.set_title(condition)
        panel.set_xlabel(f"test {study.metric} in %")
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(study.methods)), study.methods)
    panels[0].invert_yaxis()
    count = len(study.scores[study.methods[0]][study.conditions[0]])
    figure.suptitle(f"mean and 95 % interval over {count} graphs")
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120))
