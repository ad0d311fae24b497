"""`rade predict`: use a trained model."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import Tensor


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, e.g. runs/csbm-gcn/rade-of/run-0.")],
    dataset: Annotated[str | None, typer.Option(help="Data set to predict; default: the one of the run.")] = None,
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = Path("predictions.csv"),
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else ~/.cache/rade.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it is there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Write the predictions of a trained model as CSV: one row per node or graph, one probability per class.

    Examples:

        rade predict runs/csbm-gcn/rade-of/run-0 --dataset csbm --out predictions.csv

        rade predict runs/csbm-gcn/rade-of/run-0 --overwrite --json
    """
    import json as format

    from rade.data import load
    from rade.errors import RunError
    from rade.train import load_run
    from rade.train.files import save_bytes

    trained = load_run(run)
    if out.is_file() and not overwrite:
        raise RunError(f"{out} exists already; --overwrite replaces it, or name another file with --out")
    data = load(dataset or trained.settings.dataset, data_root)
    logits = trained.predict(data)
    text, rows = table(logits, trained.shape.loss, trained.shape.level), len(logits)
    save_bytes(out, text.encode())
    if json:
        typer.echo(format.dumps({"out": str(out), "rows": rows, "dataset": data.name, "run": str(run)}))
    else:
        typer.echo(f"{rows} predictions for {data.name} in {out}")


def table(logits: Tensor, loss: str, level: str) -> str:
    """CSV with the row's number, the decision, and a probability per class (or per label)."""
    probabilities, decisions = decide(logits, loss)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([level, "prediction", *(f"probability_{c}" for c in range(probabilities.size(1)))])
    for number, (decision, row) in enumerate(zip(decisions, probabilities.tolist())):
        writer.writerow([number, decision, *(f"{value:.6g}" for value in row)])
    return text.getvalue()


def decide(logits: Tensor, loss: str) -> tuple[Tensor, list[str]]:
    """Probabilities [N, C] and the decision of each row: a class, or the labels above one half joined by spaces."""
    if loss == "multiclass":
        return logits.softmax(dim=1), [str(label) for label in logits.argmax(dim=1).tolist()]
    if logits.size(1) == 1:
        return logits.sigmoid(), [str(int(positive)) for positive in (logits[:, 0] > 0).tolist()]
    chosen = [" ".join(str(c) for c, yes in enumerate(row) if yes) for row in (logits > 0).tolist()]
    return logits.sigmoid(), chosen
