"""`rade demo`: a first look, on data that nobody chose for its outcome."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    graphs: Annotated[int, typer.Option(min=1, max=1000, help="Random graphs; every method is trained on each.")] = 10,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Most epochs; default: the protocol's 200, 100 on rings.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for demo.png and demo.json.")] = Path("demo"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Train a GCN in five ways on random graphs; score it there, where edges are missing or spurious, and far away.

    The graphs are contextual stochastic block models (`rade.data.csbm`) whose parameters were fixed before any model
    was trained on them; "five hops away" are rings (`rade.data.ring_transfer`), made for what two layers cannot see.
    What comes out is printed, whatever it is. Takes under two minutes on two cores.

    Examples:

        rade demo

        rade demo --graphs 3 --out somewhere
    """
    from rade.commands.demonstrating import demonstrate

    demonstrate(graphs, epochs, out, json)
