"""`rade diagnose`: how RADE-OFS's inference changes the flow of information through a graph."""

import json as jsonlib
import re
from pathlib import Path
from typing import Annotated

import typer


def diagnose(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, e.g. runs/csbm-gcn/rade-ofs/run-0.")],
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else ~/.cache/rade.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder of results: keep it in studies/diagnoses/ there, for rade report.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Compare how a trained model predicts on the clean graph, as RADE-OF does, and as RADE-OFS.

    Spectral gap, how much of a node's sensitivity to others comes from beyond the layers' reach (--json: by distance),
    and how often predictions flip under edge noise. RADE-OFS has the rates that the run ended with; p = ρ = 0.5 for a
    run without RADE.

    Examples:

        rade diagnose runs/csbm-gcn/none/run-0

        rade diagnose runs/cora-gcn/rade-ofs/run-0 --out results
    """
    from rade.data import load
    from rade.diagnose import diagnose as measure
    from rade.train.files import save_json
    from rade.train.run import load_run
    from rade.train.stages import corrupted

    trained = load_run(run)
    found = measure(trained, corrupted(load(trained.settings.dataset, data_root), trained.settings))
    if out is not None:
        name = re.sub(r"\W+", "-", f"{found['dataset']} {found['model']}")  # one of the same model is replaced
        save_json(out / "studies" / "diagnoses" / f"{name}.json", found)
    if json:
        typer.echo(jsonlib.dumps(found, indent=1))
        return
    from rich.console import Console

    from rade.commands.display import lined_up, printable
    from rade.report.words import diagnosis, facts

    console = printable(Console(highlight=False, soft_wrap=True))
    console.print(f"{found['dataset']}: {found['model']}; {facts(found)}")
    for note in found["notes"]:
        console.print(f"note: {note}")
    console.print(lined_up(("", "clean, RADE-OF", "RADE-OFS"), diagnosis(found), [""]))
