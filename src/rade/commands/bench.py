"""`rade bench`: speed and memory as ratios to PyG and to plain layers, measured side by side."""

import json as jsonlib
import os
from typing import Annotated, Any

import typer


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks to run; all of them by default.")] = None,
    quick: Annotated[bool, typer.Option(help="Toy sizes: shows that everything runs, not how fast.")] = False,
    repeats: Annotated[int, typer.Option(min=1, max=10**6, help="Turns per contestant; medians are reported.")] = 5,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads; PyTorch's choice by default.")
    ] = None,
    data_root: Annotated[
        str | None, typer.Option(help="Folder of the real data sets of epoch and adapt; else $RADE_DATA, else data/.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Seed of the random graphs and views.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Measure RADE against PyG and against itself without views; ratios are what counts, on an idle machine.

    Examples:

        rade bench

        rade bench sampling convolution --repeats 3

        rade bench --quick --json
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler, which counts memory, otherwise talks on stderr
    import torch

    from rade.bench import BENCHMARKS, Setting

    unknown = sorted(set(names or ()) - set(BENCHMARKS))
    if unknown:
        raise typer.BadParameter(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if threads is not None:
        torch.set_num_threads(threads)
    setting = Setting(1 if quick else repeats, seed, quick, data_root)
    machine = {"torch": torch.__version__, "threads": torch.get_num_threads(), "quick": quick}
    rows = []
    if not json:
        typer.echo(", ".join(f"{key} {value}" for key, value in machine.items()))
    for name in names or BENCHMARKS:
        for row in BENCHMARKS[name](setting):
            rows.append(row)
            if not json:
                typer.echo(line(row, verdict=not quick))
    if json:
        typer.echo(jsonlib.dumps(machine | {"rows": [vars(row) for row in rows]}, indent=1))


def line(row: Any, verdict: bool) -> str:
    """A row in words, with a verdict where there is a target."""
    text = f"{row.benchmark}: {row.name}: {row.seconds:.3g} s"
    if row.ratio is not None:
        text += f", {row.ratio:.3g} x {row.against}"
    if verdict and row.target is not None:
        text += f" (target {row.target:.2g}: {'met' if row.ratio <= row.target else 'missed'})"
    return text + "".join(f", {value:,.4g} {unit}" for unit, value in row.figures.items())
