"""`rade reproduce`: run the cells of tables, on this machine or many, into a store that knows what is done."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE…", help="Names such as node-gcn, or TOML files of your own.")
    ],
    datasets: Annotated[list[str] | None, typer.Option(help="Only these; repeat it, or separate by commas.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these rows, by method or by the row's name.")] = None,
    backbones: Annotated[list[str] | None, typer.Option(help="Only these backbones.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of a cell, instead of the table's number; folds are repeated that often, else once."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="released or paper, instead of the table's; see rade train --help.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of every run, as NAME=VALUE; may repeat.")
    ] = None,
    store: Annotated[Path, typer.Option(help="The folder of finished runs.")] = Path("results"),
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time, each in a process of its own.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of a run; another number rounds otherwise.")] = 1,
    budget: Annotated[float | None, typer.Option(min=0, help="Hours after which no new run starts.")] = None,
    shard: Annotated[str | None, typer.Option(help="Only part i of n, as 3/8; for job arrays on one store.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Run on the workers of this Dask scheduler, e.g. tcp://head:8786.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 50,
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else data/.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its time; train nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Run the cells of one or more tables, as many runs each as the table asks for, and keep every run in a store.

    What the store has is not done again, so the same command continues after Ctrl-C, a crash or a lost machine, from
    the last checkpoint of each run. A run that fails does not stop the others: it is reported at the end, and the
    exit code is then 1. Cheap and half-finished cells come first.

    Examples:

        rade reproduce node-gcn --dry-run

        rade reproduce node-gcn --datasets cora,citeseer --seeds 3 --workers 2

        rade reproduce node-gcn ablations-gcn --methods none,rade-of --budget 8

        rade reproduce graph-gcn --shard 3/8 --store /shared/results

        rade reproduce node-gcn --scheduler tcp://head:8786
    """
    from rade.commands.reproducing import Order, execute

    execute(
        Order(
            tables=tables,
            datasets=names(datasets),
            methods=names(methods),
            backbones=names(backbones),
            seeds=seeds,
            protocol=protocol or "",
            assignments=tuple(set_ or ()),
            store=store,
            workers=workers,
            threads=threads,
            budget=budget,
            shard=shard or "1/1",
            scheduler=scheduler or "",
            checkpoint_every=checkpoint_every,
            data_root=data_root,
            dry_run=dry_run,
            json=json,
        )
    )


def names(given: list[str] | None) -> tuple[str, ...]:
    """Names from a list whose elements may hold several, separated by commas.

    >>> names(["cora,citeseer", "cs"])
    ('cora', 'citeseer', 'cs')
    """
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())
