"""What `rade demo` does once its options are read."""

import json as jsonlib
import time
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path

import torch
import typer
from rich.console import Console
from rich.table import Table

from rade.commands.display import printable
from rade.data import Dataset, load
from rade.data.splits import FixedSplit, Split
from rade.report.judge import UNJUDGED, WORDS, Verdict, correct, judge
from rade.statistics import number, signed
from rade.train.corruption import Corruption
from rade.train.files import ensure_writable, save_json
from rade.train.plan import make_plan
from rade.train.stress import CONDITIONS, Stress, stress
from rade.train.stress_picture import draw_stress

METHODS = ("none", "dropout", "drop-edge", "rade-of", "rade-ofs")
FAR = "five hops away"
FAR_EPOCHS = 100  # all that learn it have by then
_WORDS = {
    "clean": "the graph of training",
    "half missing": "half of its edges removed at random",
    "half spurious": "half as many random edges added",
    FAR: "a class told by a node that two layers cannot see, on rings made for it; chance is 20",
}


def demonstrate(graphs: int, epochs: int | None, out: Path, json: bool) -> None:
    """Train, score, draw, and say what came out."""
    near = make_plan({"dataset": "csbm", "method": list(METHODS)} | ({"epochs": epochs} if epochs else {}))
    short = min(epochs or FAR_EPOCHS, FAR_EPOCHS)
    far = make_plan({"dataset": "ring-transfer", "method": list(METHODS), "layers": 2, "epochs": short})
    ensure_writable(out)  # before a minute of training, not after
    started = time.monotonic()
    if not json:
        typer.echo(f"{graphs} random graphs with communities, a GCN trained on each in {len(METHODS)} ways; scores are")
        typer.echo("test accuracy in %: " + ", ".join(f"{name} = {_WORDS[name]}" for name in CONDITIONS))
        typer.echo(f"then {graphs} sets of 100 rings, a GCN of two layers: {FAR} = {_WORDS[FAR]}")
    told = (lambda method, number, scores: None) if json else _line
    study = stress([load("csbm", seed=number) for number in range(graphs)], near.settings, told=told).beside(
        stress([_rings(number) for number in range(graphs)], far.settings, conditions={FAR: Corruption()}, told=told)
    )
    picture = out / "demo.png"
    draw_stress(study, picture)
    save_json(out / "demo.json", study.to_json())
    if json:
        typer.echo(jsonlib.dumps({**study.to_json(), "picture": str(picture)}, indent=1))
        return
    printable(Console(highlight=False)).print(_table(study))
    for line in verdicts(study):
        typer.echo(line)
    typer.echo(f"picture: {picture}, numbers: {out / 'demo.json'} ({time.monotonic() - started:.0f} s)")


def _rings(seed: int) -> Dataset:
    """A hundred rings, split so that every part has as many of each class: a model that hears nothing is at chance."""
    dataset = load("ring-transfer", rings=100, seed=seed)
    heads = torch.cat(astuple(dataset.split(run=0))).sort().values  # the nodes that must name a class
    by_class = heads[dataset.graphs[0].y[heads].argsort(stable=True)].view(dataset.classes, -1)
    parts = by_class.tensor_split((by_class.size(1) * 6 // 10, by_class.size(1) * 8 // 10), dim=1)
    return replace(dataset, splits=FixedSplit(Split(*(part.flatten() for part in parts))))


def _line(method: str, number: int, scores: Mapping[str, float]) -> None:
    shown = ", ".join(f"{name} {100 * score:.1f}" for name, score in scores.items())
    typer.echo(f"graph {number + 1}, {method}: {shown}")


def _table(study: Stress) -> Table:
    """A row per method: the mean, and the difference to the first method with its interval."""
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
    if one.code != UNJUDGED or one.result.count == 1:
        return WORDS[one.code]
    mean = number(one.result.mean)
    return "equal in every graph" if mean == number(0.0) else f"{signed(one.result.mean, 1)} in every graph"
