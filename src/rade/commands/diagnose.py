"""`rade diagnose`: how RADE-OFS's inference changes the flow of information through a graph."""

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer


def diagnose(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, e.g. runs/csbm-gcn/rade-ofs/run-0.")],
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else ~/.cache/rade.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Compare how a trained model predicts on the clean graph, as RADE-OF does, and as RADE-OFS.

    Spectral gap, and how much of a node's sensitivity to others comes from beyond the layers' reach (--json: by
    distance). RADE-OFS has the rates that the run ended with; p = ρ = 0.5 for a run without RADE.

    Examples:

        rade diagnose runs/csbm-gcn/none/run-0

        rade diagnose runs/cora-gcn/rade-ofs/run-0 --json
    """
    from rade.data import load
    from rade.diagnose import diagnose as measure
    from rade.train.run import load_run

    trained = load_run(run)
    found = measure(trained, load(trained.settings.dataset, data_root))
    if json:
        typer.echo(jsonlib.dumps(found, indent=1))
        return
    from rich.console import Console

    from rade.commands.display import lined_up, printable
    from rade.statistics import many

    console = printable(Console(highlight=False, soft_wrap=True))
    sizes = ", ".join(many(found[f"{name}s"], name) for name in ("node", "edge", "graph"))
    console.print(f"{found['dataset']}: {found['model']}; {sizes}; p = {found['p']:.3g}, q = {found['q']:.3g}")
    for note in found["notes"]:
        console.print(f"note: {note}")
    clean, ofs = found["operators"]["clean"], found["operators"]["rade-ofs"]
    gap = ("spectral gap, largest component", f"{clean['gap']:.3g}", f"{ofs['gap']:.3g}")
    shares = (f"{100 * one['beyond']:.1f} %" for one in (clean, ofs))
    beyond = (f"sensitivity from beyond {many(found['layers'], 'edge')}", *shares)
    console.print(lined_up(("", "clean, RADE-OF", "RADE-OFS"), [gap, beyond], [""]))
