"""`rade bench`: speed and memory as ratios to PyG and to plain layers, measured side by side."""

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rade.commands.reproduce import names as separated

REGRESSION = 1.2  # single runs differ by 10 to 20 %


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks to run; all of them by default.")] = None,
    quick: Annotated[bool, typer.Option(help="Toy sizes: shows that everything runs, not how fast.")] = False,
    repeats: Annotated[int, typer.Option(min=1, max=10**6, help="Turns per contestant; medians are reported.")] = 5,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads; PyTorch's choice by default.")
    ] = None,
    data_root: Annotated[
        str | None, typer.Option(help="Folder of the real data sets; else $RADE_DATA, else data/.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Data sets of epoch, phases and rate-step; all of theirs by default.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file of --json: flag ratios grown by a fifth.")
    ] = None,
    authors: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A checkout of the authors' scripts: epoch times them, too.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the ratios and their goals into this file.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Seed of the random graphs and views.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Measure RADE against PyG and against itself without views; ratios are what counts, on an idle machine.

    Examples:

        rade bench

        rade bench sampling convolution --repeats 3

        rade bench --quick --json

        rade bench goals --threads 1 --picture goals.png

        rade bench epoch --data cora --compare before.json

        rade bench epoch --data cora,cs,computer --authors ../RADE
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler, which counts memory, otherwise talks on stderr
    import torch

    from rade.bench import BENCHMARKS, GROUPS, Setting
    from rade.bench.authors import Checkout
    from rade.bench.cases import CASES, TOY
    from rade.train.files import ensure_writable

    known = {**BENCHMARKS, **GROUPS}
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise typer.BadParameter(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
    only, sets = separated(data), list(dict.fromkeys(case.data for case in (*CASES, *TOY)))
    strange = [name for name in only if name not in sets]
    if strange:
        raise typer.BadParameter(f"no benchmark runs on {', '.join(strange)}; there are {', '.join(sets)}")
    if data_root is not None and not Path(data_root).is_dir():
        raise typer.BadParameter(f"--data-root: {data_root} is no folder; `rade datasets` tells how to fill one")
    if picture is not None:
        ensure_writable(picture.parent)
    before = {} if compare is None else baseline(compare)
    if threads is not None:
        torch.set_num_threads(threads)
    checkout = None if authors is None else str(Checkout(authors).folder)
    setting = Setting(1 if quick else repeats, seed, quick, data_root, only, checkout)
    machine = {"torch": torch.__version__, "threads": torch.get_num_threads(), "quick": quick}
    rows = []
    if not json:
        typer.echo(", ".join(f"{key} {value}" for key, value in machine.items()))
    for name in names or BENCHMARKS:
        for row in known[name](setting):
            rows.append(row)
            if not json:
                typer.echo(line(row, verdict=not quick) + slower(row, before))
    if json:
        typer.echo(jsonlib.dumps(machine | {"rows": [vars(row) for row in rows]}, indent=1))
    if picture is not None:
        draw(rows, picture)
    if any(slower(row, before) for row in rows):
        raise typer.Exit(1)


def baseline(path: Path) -> dict[tuple[str, str, str], float]:
    """The ratios of an earlier run by benchmark, name and peer."""
    try:
        rows = jsonlib.loads(path.read_text("utf-8"))["rows"]
        return {(r["benchmark"], r["name"], r["against"]): r["ratio"] for r in rows if r["ratio"] is not None}
    except (ValueError, KeyError, TypeError):
        raise typer.BadParameter(f"{path} is no output of `rade bench --json`") from None


def slower(row: Any, before: dict[tuple[str, str, str], float]) -> str:
    """What to say of a ratio that grew by a fifth or more; nothing of others."""
    then = before.get((row.benchmark, row.name, row.against))
    if then is None or row.ratio is None or row.ratio < REGRESSION * then:
        return ""
    return f" -- REGRESSION: {then:.3g} x before"


def draw(rows: list[Any], path: Path) -> None:
    """Ratios as bars, goals as marks."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if row.ratio is not None]
    figure = Figure(figsize=(9, 1 + 0.25 * len(shown)), layout="constrained")
    axes = figure.subplots()
    axes.barh([f"{row.benchmark}: {row.name} / {row.against}" for row in shown], [row.ratio for row in shown])
    goals = [(row.target, place) for place, row in enumerate(shown) if row.target is not None]
    axes.plot([goal for goal, _ in goals], [place for _, place in goals], "k|", markersize=12)
    axes.set_xscale("log")
    axes.set_xlabel("ratio; a mark is its goal")
    axes.invert_yaxis()
    figure.savefig(path)


def line(row: Any, verdict: bool) -> str:
    """A row in words, with a verdict where there is a target."""
    text = f"{row.benchmark}: {row.name}: {row.seconds:.3g} s"
    if row.ratio is not None:
        text += f", {row.ratio:.3g} x {row.against}"
    if verdict and row.target is not None:
        text += f" (target {row.target:.2g}: {'met' if row.ratio <= row.target else 'missed'})"
    return text + "".join(f", {value:,.4g} {unit}" for unit, value in row.figures.items())
