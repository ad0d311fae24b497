"""`rade datasets`: what there is, and getting it: from the web, or from an offline mirror."""

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rade.data.fetching import Arrived

WIDE = 200  # columns of a terminal that hold all
app = typer.Typer(no_args_is_help=False)

DataRoot = Annotated[Path | None, typer.Option("--data-root", help="Data folder; else $RADE_DATA, else ~/.cache/rade.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.callback(invoke_without_command=True)
def datasets(context: typer.Context, data_root: DataRoot = None, json: Json = False) -> None:
    """List all data sets: task, sizes, metric, where the files are or what is missing, licence and source.

    Examples:

        rade datasets

        rade datasets --data-root ~/data --json

        rade datasets download cora mutag
        rade datasets import ../mirror
    """
    context.obj = (data_root, json)  # options before the subcommand hold for it as well
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
    json: Json = False,
) -> None:
    """Copy raw files from an offline mirror, each checked against its sha256 before it is put in place.

    Examples:

        rade datasets import ../mirror

        rade datasets import ../mirror cora mutag --data-root ~/data
    """
    from rade.data import DataError, import_mirror

    before = context.obj
    results = import_mirror(folder, data_root or before[0], names or ())
    if json or before[1]:
        typer.echo(jsonlib.dumps([vars(result) for result in results], indent=1, ensure_ascii=False))
    else:
        for result in results:
            typer.echo(_counted(result))
    missing = [path for result in results if names for path in result.missing]
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
    from rade.data.fetching import fetch
    from rade.data.files import data_root as resolve_root

    root = resolve_root(data_root or context.obj[0])
    for entry in [resolve(name) for name in names]:
        typer.echo(_counted(fetch(entry, root)))


def _counted(came: "Arrived") -> str:
    """What became of the files of one data set."""
    missing = f"; missing: {', '.join(came.missing)}" if came.missing else ""
    counts = f"{len(came.new)} new, {len(came.present)} already there{missing}"
    return f"{came.dataset}: {counts if came.new or came.present or missing else 'generated, needs no file'}"


def describe(data_root: Path | None) -> list[dict[str, Any]]:
    """One record per data set: the catalogue's facts and the state of its files."""
    from rade.data.catalogue import catalogue
    from rade.data.files import data_root as resolve_root
    from rade.data.files import missing_files, raw_files

    root = resolve_root(data_root)
    rows = []
    for entry in catalogue().values():
        missing = missing_files(entry.name, root)
        absent = len(missing) == len(raw_files(entry.name))
        state = "embedded" if entry.embedded else "ready" if not missing else "absent" if absent else "incomplete"
        facts = {key: value for key, value in vars(entry).items() if key not in ("family", "folder", "url")}
        folder = None if entry.embedded else str(root / entry.folder)
        rows.append(facts | {"state": state, "files": folder, "missing": [file.path for file in missing]})
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from rade.commands.display import lined_up, printable

    console, numbers = printable(Console()), ("graphs", "nodes", "edges", "features", "classes")
    columns: tuple[str, ...] = ("name", "level", *numbers, "metric", "split", "files", "licence", "source")
    if console.width < WIDE:
        columns = ("name", "level", *numbers[:3], "files")
    lines = [
        [f"{row[name]:,}" if name in numbers else str(row[name]) for name in columns]
        for row in [row | {"files": _files(row)} for row in rows]
    ]
    console.print(lined_up(columns, lines, set(columns) - set(numbers)))
    if console.width < WIDE:
        console.print("for metrics, splits, licences and sources: a wider terminal, or rade datasets --json")


def _files(row: dict[str, Any]) -> str:
    if row["state"] == "incomplete":
        return "missing " + ", ".join(Path(path).name for path in row["missing"])
    return {"embedded": "generated", "absent": "not here", "ready": row["files"]}[str(row["state"])] or ""
