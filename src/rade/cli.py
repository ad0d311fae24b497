"""The `rade` command: mounts the commands of `rade.commands` and turns user errors into one sentence."""

import io
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from rade.errors import RadeError, is_machine

COMMANDS = ("demo", "train", "predict", "reproduce", "results", "report", "diagnose", "datasets")

# Typer brings its own copy of click or uses the installed one; both derive BadParameter from the usage error.
UsageError: type[Any] = typer.BadParameter.__mro__[1]

EXIT_CODES = (
    "Exit codes: 0 done; 1 the run failed; 2 wrong input; 3 the machine refused (disk, memory, permissions); "
    "128 + n stopped by signal n, state saved (129 hang-up, 130 Ctrl-C, 143 SIGTERM)."
)


class _Group(TyperGroup):
    def invoke(self, context: Any) -> Any:
        """Typer makes a bare exit of Ctrl-C, which then would say nothing."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            raise typer.Abort from None


app = typer.Typer(
    name="rade",
    cls=_Group,
    help="Random Add-Drop Edge for graph neural networks: train, compare, reproduce.",
    epilog=EXIT_CODES,
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
    """Add every command: a function of the module's name, or a group called `app`.

    Modules import only typer at their top, so that help and bad options do not wait for PyTorch.
    """
    for name in COMMANDS:
        module = import_module(f"rade.commands.{name}")
        if "app" in vars(module):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(vars(module)[name])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors meant for the user become one sentence and an exit code (see `EXIT_CODES`)."""
    if not app.registered_commands:
        mount()
    output = None
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # what an old terminal cannot show must not end a training
        if sys.stdout is sys.__stdout__:
            output = _Output(sys.stdout.fileno(), "w", closefd=False)
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(output), sys.stdout.encoding, "replace")
    code = _run(arguments)
    if output:
        sys.stdout.flush()
        if output.failure:
            code = code or _fail(f"standard output could not be written: {output.failure}", 3)
    sys.exit(code)


class _Output(io.FileIO):
    """Standard output; where it cannot be written, a disk is full or its reader gone, the work goes on in silence."""

    failure = ""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError as error:
            self.failure = str(error.strerror)
            return len(content)


def _run(arguments: list[str] | None) -> int:
    try:
        code = app(args=arguments, standalone_mode=False)
    except typer.Abort:  # a RuntimeError
        typer.echo("interrupted", err=True)
        return 130
    except UsageError as error:
        return _fail(error.format_message(), 2)
    except RadeError as error:
        return _fail(str(error), error.code)
    except OSError as error:
        return _fail(_sentence(error), 3 if is_machine(error) else 2)
    except (MemoryError, RuntimeError) as error:
        return _memory(error)
    return code if isinstance(code, int) else 0


def _sentence(error: OSError) -> str:
    """What the file system said, and of which file."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return f"cannot go on: {place}{error.strerror or error}"


def _memory(error: BaseException) -> int:
    """The sentence for PyTorch's ways to say that memory is short; anything else is a defect and stays visible."""
    signs = ("allocate memory", "out of memory", "not enough memory", "size calculation overflowed")
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in signs):
        return _fail("there is not enough memory for this; a smaller --hidden or --batch-size needs less", 3)
    if "home directory" in str(error):  # what pathlib says to ~nosuchuser
        return _fail("a folder that begins with ~ names a user that this machine does not know", 2)
    raise error


def _fail(sentence: str, code: int) -> int:
    printable = sentence.encode("utf-8", "replace").decode()  # names of files may hold what is no text
    typer.echo(f"error: {' '.join(printable.split())}", err=True)
    return code
