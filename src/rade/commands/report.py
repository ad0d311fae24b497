"""`rade report`: tables, tests and pictures from a store of finished runs."""

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from rade.commands.reproduce import names


def report(
    store: Annotated[
        Path | None, typer.Argument(help="The store, or the folder of its text form.", show_default="results.sqlite")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report's files.")] = Path("report"),
    format: Annotated[str, typer.Option(help="Any of html, md, tex, separated by commas.")] = "html,md,tex",
    tables: Annotated[
        str | None,
        typer.Option(
            help="Names of tables or files of your own, separated by commas; by default all of ours that have runs."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Put the runs of a store beside the paper's tables, with paired tests and pictures: HTML, Markdown, LaTeX.

    Examples:

        rade report

        rade report results --out report --format html

        rade report results --tables node-gcn,graph-gcn

        rade report results --tables mine.toml
    """
    from rade.errors import RadeError
    from rade.experiment import table
    from rade.experiment.store import existing, usual
    from rade.report import build, write
    from rade.report.tables import reading_order
    from rade.report.words import summary

    store = usual() if store is None else store
    asked = names([tables or ""])
    experiments = [table.load(name) for name in asked or table.names()]
    runs = existing(store).records()
    if not runs:
        way = "rade results STORE merge FOLDER takes in what rade train --out FOLDER left"
        raise RadeError(f"{store} holds no finished run; {way}")
    found = build(runs, experiments if asked else reading_order(experiments))
    files = write(found, out, names([format]) or ("",))
    if json:
        document = {"runs": len(runs), "files": list(map(str, files)), "summary": summary(found)}
        typer.echo(jsonlib.dumps(document, indent=1, ensure_ascii=False))
        return
    typer.echo(summary(found))
    typer.echo(f"in {out}: {', '.join(file.name for file in files)}")
