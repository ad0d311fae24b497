"""What a cell's runs cost and how far training and test lie apart."""

from dataclasses import dataclass
from statistics import median

from rade.report.match import Cell, Filled
from rade.report.tables import Table
from rade.statistics import spread


@dataclass(frozen=True)
class Cost:
    """Medians over runs; `ratio` is to the plain backbone there; train and gap in points at the best epoch."""

    cell: Cell
    runs: int
    epochs: float
    per_epoch: float
    ratio: float | None
    seconds: float
    train: float | None
    gap: float | None
    added: float | None  # share of the logits' variance by additions, in %
    budget: int  # of a search: how many settings were tried


def costs(table: Table) -> tuple[Cost, ...]:
    """One line per cell that was run."""
    plain = {
        (cell.dataset, cell.backbone): _per_epoch(cell.filled) for cell in table.filled if cell.is_plain and cell.filled
    }
    return tuple(
        _cost(cell, cell.filled, plain.get((cell.dataset, cell.backbone))) for cell in table.filled if cell.filled
    )


def _cost(cell: Cell, filled: Filled, plain: float | None) -> Cost:
    runs = filled.group.runs
    own = _per_epoch(filled)
    trained = [(run.train, run.test) for run in runs if run.train is not None]
    return Cost(
        cell=cell,
        runs=len(runs),
        epochs=median(run.epochs for run in runs),
        per_epoch=own,
        ratio=own / plain if plain else None,
        seconds=sum(sorted(run.seconds for run in runs)),
        train=100 * spread([train for train, _ in trained]).mean if trained else None,
        gap=100 * spread([train - test for train, test in trained]).mean if trained else None,
        added=_added(filled),
        budget=filled.tried,
    )


def _added(filled: Filled) -> float | None:
    shares = [run.variance["add"] for run in filled.group.runs if "add" in run.variance]
    return 100 * median(shares) if shares else None


def _per_epoch(filled: Filled) -> float:
    return median(run.seconds_per_epoch for run in filled.group.runs)
