"""The `rade` command: mounts the commands of `rade.commands` and turns user errors into one sentence."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer

from rade.errors import RadeError

COMMANDS = ("train", "predict", "reproduce", "results", "report", "datasets", "bench")

# Typer brings its own copy of click or uses the installed one; both derive BadParameter from the usage error.
UsageError: type[Any] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="rade",
    help="Random Add-Drop Edge for graph neural networks: train, compare, reproduce.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and exit.")
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"rade {installed('rade-gnn')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def mount() -> None:
    """Add every command module that exists: a function of the module's name, or a group called `app`.

    Modules import only typer at their top, so that help and bad options do not wait for PyTorch.
    """
    for name in COMMANDS:
        if find_spec(f"rade.commands.{name}") is None:
            continue
        module = import_module(f"rade.commands.{name}")
        if "app" in vars(module):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(vars(module)[name])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors meant for the user become one sentence and exit code 2."""
    if not app.registered_commands:
        mount()
    try:
        code = app(args=arguments, standalone_mode=False)
    except UsageError as error:
        _fail(error.format_message())
    except RadeError as error:
        _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
            raise
        _fail("there is not enough memory for this; a smaller --hidden or --batch-size needs less")
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(sentence: str) -> None:
    typer.echo(f"error: {' '.join(sentence.split())}", err=True)
    sys.exit(2)
