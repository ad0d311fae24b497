"""`rade report`: tables, tests and pictures from a store of finished runs."""

from pathlib import Path
from typing import Annotated, Any

import typer


def report(
    store: Annotated[
        Path | None, typer.Argument(help="The store, or the folder of its text form.", show_default="results.sqlite")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report's files.")] = Path("report"),
    format: Annotated[str, typer.Option(help="Any of html, md, tex, csv, separated by commas.")] = "html,md,tex,csv",
    tables: Annotated[
        str | None,
        typer.Option(
            help="Names of tables or files of your own, separated by commas; by default all of ours that have runs."
        ),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; by default all that the tables name.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "RADE: results",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Put the runs of a store beside the paper's tables, with paired tests and pictures: HTML, Markdown, LaTeX, CSV.

    Examples:

        rade report

        rade report results --out report --format html

        rade report results --tables node-gcn,graph-gcn --title "Seeds 0-19"

        rade report results --datasets cora,citeseer

        rade report results --tables mine.toml
    """
    import json as jsonlib

    from rade.errors import RadeError
    from rade.experiment.store import usual
    from rade.report import build, read_store, write
    from rade.report.render import check_formats
    from rade.report.tables import only
    from rade.report.words import summary

    store = usual() if store is None else store
    formats = check_formats(_names(format))
    experiments = _experiments(_names(tables or ""))
    stored = read_store(store)
    asked = _names(datasets or "")
    if asked:
        _check_datasets(asked, {run.settings["dataset"] for run in stored.runs}, experiments)
        stored, experiments = only(stored, experiments, asked)
    if not stored.runs and not stored.failures and not stored.diagnoses:
        way = "rade results STORE merge FOLDER takes in what rade train --out FOLDER left"
        raise RadeError(f"{store} holds no finished run{f' on {datasets}' if asked else ''}; {way}")
    found = build(stored, experiments, title)
    files = write(found, out, formats)
    if json:
        document = {"runs": len(stored.runs), "failures": stored.failures, "files": [str(file) for file in files]}
        typer.echo(jsonlib.dumps({**document, "summary": summary(found)}, indent=1, ensure_ascii=False))
        return
    typer.echo(summary(found))
    typer.echo(f"in {out}: {', '.join(file.name for file in files)}")


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _check_datasets(asked: list[str], stored: set[str], experiments: list[Any]) -> None:
    """Refuse a name that neither the store nor a table knows."""
    from rade.errors import unknown

    known = sorted(stored | {name for experiment in experiments for name in experiment.datasets})
    for name in asked:
        if name not in known:
            raise unknown("data set", name, known)


def _experiments(names: list[str]) -> list[Any]:
    """The tables asked for, else all."""
    from rade.experiment import table
    from rade.report.tables import reading_order

    if names:
        return [table.find(name) for name in names]
    return reading_order([table.load(name) for name in table.names()])
