"""`rade datasets`: what there is, and getting it: from the web, or from an offline mirror."""

import json as jsonlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=False)

DataRoot = Annotated[Path | None, typer.Option("--data-root", help="Data folder; else $RADE_DATA, else ~/.cache/rade.")]


@app.callback(invoke_without_command=True)
def datasets(
    context: typer.Context,
    data_root: DataRoot = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document: also splits, licences, sources.")
    ] = False,
) -> None:
    """List all data sets: task, sizes, metric, where the files are or what is missing.

    Examples:

        rade datasets

        rade datasets --data-root ~/data --json

        rade datasets download cora mutag

        rade datasets import ../mirror
    """
    context.obj = data_root  # an option before the subcommand holds for it as well
    if context.invoked_subcommand is None:
        rows = describe(data_root)
        if json:
            typer.echo(jsonlib.dumps(rows, indent=1, ensure_ascii=False))
        else:
            _print_table(rows)


@app.command("import")
def import_datasets(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The mirror: a folder with Cora/, MUTAG/, …")],
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all by default.")] = None,
    data_root: DataRoot = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Copy raw files from an offline mirror, each checked against its sha256 before it is put in place.

    Examples:

        rade datasets import ../mirror

        rade datasets import ../mirror cora mutag --data-root ~/data
    """
    from rade.data import DataError, import_mirror

    found = import_mirror(folder, data_root or context.obj, names or ())
    if json:
        typer.echo(jsonlib.dumps({name: dict(states) for name, states in found.items()}, indent=1))
    else:
        typer.echo("\n".join(_counted(name, states) for name, states in found.items()))
    missing = [path for one in found.values() if names for path, state in one.items() if state == "missing"]
    if missing:
        raise DataError(f"{', '.join(missing)} is not in the mirror '{folder}'")


@app.command("download")
def download_datasets(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="Data sets.")],
    data_root: DataRoot = None,
) -> None:
    """Download what is missing of some data sets, for machines that have no network later; training does so as well.

    Examples:

        rade datasets download cora citeseer

        rade datasets download ogbg-molhiv --data-root /scratch/data
    """
    from rade.data import resolve
    from rade.data.files import data_root as resolve_root
    from rade.data.files import fetch

    root = resolve_root(data_root or context.obj)
    for entry in [resolve(name) for name in names]:
        typer.echo(_counted(entry.name, fetch(entry, root)))


def _counted(name: str, states: Mapping[str, str]) -> str:
    """What became of the files of one data set."""
    if not states:
        return f"{name}: generated, needs no file"
    counts, missing = Counter(states.values()), [path for path, state in states.items() if state == "missing"]
    told = f"{name}: {counts['new']} new, {counts['present']} already there"
    return f"{told}; missing: {', '.join(missing)}" if missing else told


def describe(data_root: Path | None) -> list[dict[str, Any]]:
    """One record per data set: the catalogue's facts, where its files are, and which are missing."""
    from rade.data.catalogue import catalogue
    from rade.data.files import data_root as resolve_root
    from rade.data.files import missing_files, raw_files

    root = resolve_root(data_root)
    rows = []
    for entry in catalogue().values():
        missing, files = [file.path for file in missing_files(entry.name, root)], str(root / entry.folder)
        if entry.embedded:
            files = "generated"
        elif missing:
            absent = len(missing) == len(raw_files(entry.name))
            files = "not here" if absent else "missing " + ", ".join(Path(path).name for path in missing)
        facts = {key: value for key, value in vars(entry).items() if key not in ("family", "folder", "url")}
        rows.append(facts | {"files": files, "missing": missing})
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from rade.commands.display import lined_up, printable

    columns = ("name", "level", "metric", "graphs", "nodes", "edges", "files")
    lines = []
    for row in rows:
        sizes = (f"{row[name]:,}" for name in ("graphs", "nodes", "edges"))
        lines.append((row["name"], row["level"], row["metric"], *sizes, row["files"]))
    printable(Console()).print(lined_up(columns, lines, {"name", "level", "metric", "files"}))
