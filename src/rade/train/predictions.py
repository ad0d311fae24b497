"""Predictions as a table."""

import csv
import io
from pathlib import Path

from torch import Tensor

from rade.train.files import write_whole
from rade.train.model import Shape


def write_predictions(path: Path, logits: Tensor, shape: Shape) -> int:
    """CSV with the row's number, the decision, and a probability per class (or per label); returns the row count."""
    probabilities, decisions = decide(logits, shape.loss)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([shape.level, "prediction", *(f"probability_{c}" for c in range(probabilities.size(1)))])
    for number, (decision, row) in enumerate(zip(decisions, probabilities.tolist())):
        writer.writerow([number, decision, *(f"{value:.6g}" for value in row)])
    write_whole(path, lambda file: file.write(text.getvalue().encode()))
    return len(decisions)


def decide(logits: Tensor, loss: str) -> tuple[Tensor, list[str]]:
    """Probabilities [N, C] and the decision of each row: a class, or the labels above one half joined by spaces."""
    if loss == "multiclass":
        return logits.softmax(dim=1), [str(label) for label in logits.argmax(dim=1).tolist()]
    if logits.size(1) == 1:
        return logits.sigmoid(), [str(int(positive)) for positive in (logits[:, 0] > 0).tolist()]
    chosen = [" ".join(str(c) for c, yes in enumerate(row) if yes) for row in (logits > 0).tolist()]
    return logits.sigmoid(), chosen
