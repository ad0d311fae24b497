"""Tables on narrow terminals: columns that matter less give way."""

from collections.abc import Callable, Collection, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDE = Console(width=1000)


def fitting(build: Callable[[Collection[str]], Table], dispensable: Sequence[str], console: Console) -> list[str]:
    """Which of the dispensable columns to hide, the first ones first, so that `build(hidden)` fits."""
    hidden: list[str] = []
    for column in dispensable:
        if Measurement.get(_WIDE, _WIDE.options, build(hidden)).minimum <= console.width:
            break
        hidden.append(column)
    return hidden


def printable(console: Console) -> Console:
    """The console for tables: piped output is not cut to 80 columns."""
    return console if console.is_terminal else Console(width=1000, highlight=False)
