"""`rade diagnose`: how RADE's inference changes the flow of information through a graph."""

from pathlib import Path
from typing import Annotated

import typer


def diagnose(
    subject: Annotated[
        str, typer.Argument(metavar="DATASET|RUN", help="A data set, or the folder of a finished run of rade train.")
    ],
    backbone: Annotated[str, typer.Option(help="Of the model that is trained on a data set.")] = "gcn",
    method: Annotated[str, typer.Option(help="Method it is trained with; see rade train --help.")] = "none",
    epochs: Annotated[int, typer.Option(min=0, max=10**9, help="Epochs it is trained for; 0: not at all.")] = 50,
    p: Annotated[float, typer.Option("--p", help="Drop rate of the views, where the model has none of its own.")] = 0.5,
    rho: Annotated[float, typer.Option(help="Likewise the add rate, over the edge density.")] = 0.5,
    anchors: Annotated[int, typer.Option(min=1, max=10**6, help="Nodes that sensitivities are taken from.")] = 16,
    partners: Annotated[int, typer.Option(min=1, max=10**6, help="Nodes paired with each for resistances.")] = 8,
    draws: Annotated[int, typer.Option(min=1, max=10**6, help="Noisy graphs per kind and share of noise.")] = 4,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Seed of everything that is sampled.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else data/.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw it into this file (png, svg or pdf).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A store: keep the result in its folder diagnoses/, for rade report.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Compare the clean, RADE-OF and RADE-OFS inference operators of a data set, or of a finished run with its model.

    Spectral gap, effective resistance and commute time between sampled nodes, sensitivity of a node's representation
    to others by their distance, how often predictions flip under edge noise, and the ratio of Prop. 4, which tells
    whether additions could stand in for drops. RADE-OF predicts on the clean graph, so its numbers are the clean ones.

    Examples:

        rade diagnose csbm

        rade diagnose cora --epochs 100 --picture cora.png

        rade diagnose runs/mutag-gin/rade-ofs/run-0 --out results
    """
    from rade.commands.diagnosing import Order, execute

    execute(
        Order(
            subject=subject, backbone=backbone, method=method, epochs=epochs, p=p, rho=rho, anchors=anchors,
            partners=partners, draws=draws, seed=seed, threads=threads, data_root=data_root, picture=picture, out=out,
            json=json,
        )
    )  # fmt: skip
