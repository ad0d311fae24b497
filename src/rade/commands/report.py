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
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "RADE: results",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Put the runs of a store beside the paper's tables, with paired tests and pictures: HTML, Markdown, LaTeX, CSV.

    Examples:

        rade report

        rade report results --out report --format html

        rade report results --tables node-gcn,graph-gcn --title "Seeds 0-19"

        rade report results --tables mine.toml
    """
    import json as jsonlib

    from rade.errors import RadeError
    from rade.experiment.store import usual
    from rade.report import build, read_folder, write
    from rade.report.beside import read_beside
    from rade.report.overview import summary
    from rade.report.write import check_formats

    store = usual() if store is None else store
    formats = check_formats(_names(format))
    experiments = _experiments(_names(tables or ""))
    runs, problems = read_folder(store)
    beside = read_beside(store, {run.key for run in runs})
    if not runs and not beside.failures and not beside.diagnoses:
        why = f" ({problems[0].name} {problems[0].reason})" if problems else ""
        way = "rade results STORE merge FOLDER takes in what rade train --out FOLDER left"
        raise RadeError(f"{store} holds no finished run{why}; {way}")
    found = build(runs, experiments, problems, title, beside)
    files = write(found, out, formats)
    if json:
        listed = [vars(problem) for problem in found.problems]
        failed = [vars(failure) for failure in beside.failures]
        document = {"runs": len(runs), "failures": failed, "files": [str(file) for file in files], "problems": listed}
        typer.echo(jsonlib.dumps({**document, "summary": summary(found)}, indent=1, ensure_ascii=False))
        return
    for problem in found.problems:
        typer.echo(f"skipped {problem.name}: {problem.reason}", err=True)
    typer.echo(summary(found))
    typer.echo(f"in {out}: {', '.join(file.name for file in files)}")


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _experiments(names: list[str]) -> list[Any]:
    """The tables asked for, else all."""
    from rade.experiment import table
    from rade.report.build import reading_order

    if names:
        return [table.find(name) for name in names]
    return reading_order([table.load(name) for name in table.names()])
