"""`rade demo`: four questions, ten seeds, a table, a sentence for each difference and a picture."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from rade.commands.questions import QUESTIONS, SeedScores
from rade.statistics import number, paired

if TYPE_CHECKING:  # at run time where they are needed: help does not wait for PyTorch
    from matplotlib.figure import Figure
    from rich.console import Console

    from rade.report.judge import Verdict

Scores = Mapping[str, Mapping[str, Sequence[float]]]  # fractions by the title of a question and its row, seed by seed

EPOCHS = 80  # what a minute allows on two cores
COLOURS = {"text": "#24292f", "grey": "#6e7781", "faint": "#c4c9cf", "blue": "#0b62c4", "orange": "#c2510a"}


def demo(
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Each seed has graphs and parameters of its own.")] = 10,
    epochs: Annotated[int, typer.Option(min=1, help="Most epochs of a training.")] = EPOCHS,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: as many as there are cores.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for demo.png and demo.json.")] = Path("demo"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Ask four questions of a GCN, with and without RADE: three that RADE is made for, and a control.

    Alignment: do random views spoil training if they are not corrected? Far away: can two layers learn a class that is
    five hops away? Wrong edges: what if half of the edges are spurious at test time? Control: a graph on which nothing
    should help. All data are generated, and were chosen by mechanism; a first dense graph, on which uncorrected views
    did as well as plain training, was replaced. What comes out is printed, whatever it is. Takes about a minute.

    Examples:

        rade demo

        rade demo --seeds 3 --out somewhere
    """
    import json as format

    from matplotlib.figure import Figure
    from rich.console import Console

    from rade.commands.display import lined_up, many, printable
    from rade.train.files import ensure_writable, save_json, write_whole

    ensure_writable(out)  # before a minute of training, not after
    started, console = time.monotonic(), Console(highlight=False, quiet=json, soft_wrap=True)
    console.print(f"A GCN, {many(len(QUESTIONS), 'question')}, {many(seeds, 'seed')} each:")
    for question in QUESTIONS:
        console.print(f"  [bold]{question.title}[/]: {question.data}")
    try:
        scores = scores_of_all(seeds, epochs, workers, console)
    except KeyboardInterrupt:
        typer.echo("interrupted: nothing was drawn; call again to start anew", err=True)
        raise typer.Exit(130) from None
    picture, numbers = out / "demo.png", {"metric": "accuracy", "scores": scores}
    figure = Figure(figsize=(11, 5.4), layout="constrained", facecolor="white")  # to be read on dark pages, too
    draw(scores, figure, COLOURS)
    write_whole(picture, lambda file: figure.savefig(file, format="png", dpi=120))
    save_json(out / "demo.json", numbers)
    if json:
        typer.echo(format.dumps({**numbers, "picture": str(picture)}, indent=1))
        return
    verdicts = judged(scores)
    lines = []
    for title, rows in scores.items():
        for row in rows:
            one = verdicts.get((title, row))
            lines.append((title, row, number(100 * fmean(rows[row]), 1), str(one.result) if one else ""))
    head = ("question", "GCN", "accuracy", "difference to plain [95 % interval]")
    printable(console).print(lined_up(head, lines, head[:2]), soft_wrap=False)
    for (title, _), one in verdicts.items():
        typer.echo(f"{title}: {one}")
    typer.echo(f"({len(verdicts)} differences, judged together: p < 0.05 after Holm.)")
    typer.echo(f"picture: {picture}, numbers: {out / 'demo.json'} ({time.monotonic() - started:.0f} s)")


def scores_of_all(seeds: int, epochs: int, workers: int | None, console: Console) -> dict[str, dict[str, list[float]]]:
    """By question and row, seed by seed; on a terminal a bar shows how far it is."""
    from rade.commands.display import tracked
    from rade.errors import RunError
    from rade.experiment.grid import run_here

    found: dict[int, dict[str, SeedScores]] = {}
    for outcome in tracked(run_here(partial(_ask, epochs), range(seeds), workers), "seeds", seeds, console):
        if outcome.value is None:
            raise RunError(f"the demo failed with seed {outcome.argument}: {outcome.failure}")
        found[outcome.argument] = outcome.value
    return {
        title: {row: [found[seed][title][row] for seed in range(seeds)] for row in rows}
        for title, rows in found[0].items()
    }


def _ask(epochs: int, seed: int) -> dict[str, SeedScores]:
    """All questions with one seed, on one core: sums in the same order however many processes there are."""
    import torch

    torch.set_num_threads(1)
    return {question.title: question.answer(seed, epochs) for question in QUESTIONS}


def judged(scores: Scores) -> dict[tuple[str, str], Verdict]:
    """Every row against the reference of its question; all of them are one family (Holm)."""
    from rade.report.judge import correct, judge

    found = {}
    for question in QUESTIONS:
        by_seed = {row: {(0, seed): one for seed, one in enumerate(of)} for row, of in scores[question.title].items()}
        for row in [row for row in by_seed if row not in (question.reference, *question.aside)]:
            found[question.title, row] = judge(row, question.reference, by_seed[row], by_seed[question.reference])
    return dict(zip(found, correct(list(found.values())), strict=True))


def draw(scores: Scores, figure: Figure, colours: Mapping[str, str]) -> None:
    """A panel per question: every row's mean with its 95 % interval, and its seeds as dots."""
    from rade.report.figures import draw_rows

    for panel, question in zip(figure.subplots(2, 2, sharex=True).flat, QUESTIONS):
        shown = {row: [100 * score for score in found] for row, found in scores[question.title].items()}
        chosen = {row: colours["blue" if row.startswith(("RADE", "Denoised")) else "orange"] for row in shown}
        chosen |= dict.fromkeys((question.reference, *question.aside), colours["grey"])
        # Of single scores it is the interval of their mean (Student's t), where there are several.
        draw_rows(panel, {row: (found, paired(found)) for row, found in shown.items()}, chosen)
        panel.axvline(fmean(shown[question.reference]), color=colours["faint"], linestyle=":", zorder=0)
        panel.set_title(question.title, loc="left", fontsize=12, fontweight="bold", pad=20, color=colours["text"])
        panel.text(0, 1.03, question.data, transform=panel.transAxes, fontsize=9, color=colours["grey"])
        panel.set_xlim(0, 105)
        panel.grid(axis="x", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    how = "test accuracy in %: mean and 95 % interval, a dot for each seed; grey: plain, blue: RADE, orange: others"
    figure.supxlabel(how, fontsize=10)
