"""How every picture of the documentation is drawn: twice, for light and for dark pages, the same bytes each time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

HERE = Path(__file__).parent
NAMES = ("text", "grey", "faint", "blue", "orange", "green")
THEMES = {
    "light": dict(zip(NAMES, ("#24292f", "#6e7781", "#c4c9cf", "#0b62c4", "#c2510a", "#1a7f37"))),
    "dark": dict(zip(NAMES, ("#e6edf3", "#8b949e", "#565e67", "#6cb0ff", "#ff9b57", "#56d364"))),
}
Colours = dict[str, str]


def draw(name: str, size: tuple[float, float], content: Callable[[Figure, Colours], None]) -> None:
    """Write NAME-light.svg and NAME-dark.svg into the folder given on the command line, else beside the scripts."""
    draw_into(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE, name, size, content)


def draw_into(folder: Path, name: str, size: tuple[float, float], content: Callable[[Figure, Colours], None]) -> None:
    """Write NAME-light.svg and NAME-dark.svg."""
    for theme, colours in THEMES.items():
        text = colours["text"]
        look = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), text)
        # A fixed salt and no date: the same picture is the same file. Text stays text, to be read and found.
        look |= {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False}
        look |= {"axes.spines.right": False, "grid.color": colours["faint"], "grid.alpha": 0.5, "legend.frameon": False}
        look |= {"font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"]}
        with matplotlib.rc_context(look):
            figure = Figure(figsize=size, layout="constrained")
            figure.patch.set_alpha(0.0)
            content(figure, colours)
            for axes in figure.axes:
                axes.patch.set_alpha(0.0)
            figure.savefig(folder / f"{name}-{theme}.svg", metadata={"Date": None})
