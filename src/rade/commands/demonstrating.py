"""What `rade demo` does once its options are read."""

import json as jsonlib
import time
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from rade.commands.narrow import printable
from rade.data import load
from rade.train.files import ensure_writable, save_json
from rade.train.plan import make_plan
from rade.train.stress import CONDITIONS, Stress, stress
from rade.train.stress_picture import draw_stress
from rade.train.summary import Difference

METHODS = ("none", "dropout", "drop-edge", "rade-of", "rade-ofs")
_WORDS = {
    "clean": "the graph of training",
    "half missing": "half of its edges removed at random",
    "half spurious": "half as many random edges added",
}


def demonstrate(graphs: int, epochs: int | None, out: Path, json: bool) -> None:
    """Train, score, draw, and say what came out."""
    plan = make_plan({"dataset": "csbm", "method": list(METHODS)} | ({"epochs": epochs} if epochs else {}))
    ensure_writable(out)  # before a minute of training, not after
    started = time.monotonic()
    if not json:
        typer.echo(f"{graphs} random graphs with communities, a GCN trained on each in {len(METHODS)} ways; scores are")
        typer.echo("test accuracy in %: " + ", ".join(f"{name} = {_WORDS[name]}" for name in CONDITIONS))
    study = stress(
        [load("csbm", seed=number) for number in range(graphs)],
        plan.settings,
        told=(lambda method, number, scores: None) if json else _line,
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


def _line(method: str, number: int, scores: Mapping[str, float]) -> None:
    shown = ", ".join(f"{name} {100 * score:.1f}" for name, score in scores.items())
    typer.echo(f"graph {number + 1}, {method}: {shown}")


def _table(study: Stress) -> Table:
    """A row per method: the mean, and the difference to the first method with its interval."""
    title = f"{study.metric} in %; below it the difference to {study.methods[0]} [95 %]"
    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for condition in study.conditions:
        table.add_column(condition, justify="right", no_wrap=True)
    for method in study.methods:
        table.add_row(method, *(_cell(study, method, condition) for condition in study.conditions))
    return table


def _cell(study: Stress, method: str, condition: str) -> str:
    scores = study.scores[method][condition]
    mean = f"{100 * sum(scores) / len(scores):.1f}"
    gap = study.difference(method, condition) if method != study.methods[0] else study.interval(method, condition)
    if gap is None:
        return mean
    if method == study.methods[0]:
        return f"{mean} [{100 * gap.low:.1f}, {100 * gap.high:.1f}]"
    return f"{mean}\n{_short(gap)}"


def _short(gap: Difference) -> str:
    return f"{100 * gap.mean:+.1f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}]"


def verdicts(study: Stress) -> list[str]:
    """In words: where a method differs from the first one, and how little a single interval means."""
    first, lines, count = study.methods[0], [], 0
    for method in study.methods[1:]:
        words = []
        for condition in study.conditions:
            gap = study.difference(method, condition)
            if gap is None:
                continue
            count += 1
            side = "better" if gap.low > 0 else "worse" if gap.high < 0 else "not told apart"
            words.append(f"{condition}: {side}")
        if words:
            lines.append(f"{method} against {first}: {'; '.join(words)}")
    if count:
        lines.append(f"{count} intervals at 95 %: one in twenty leaves out 0 by chance.")
    return lines
