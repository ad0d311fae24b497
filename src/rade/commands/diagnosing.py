"""What `rade diagnose` does once its options are read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from rade.commands.display import printable
from rade.data import load
from rade.data.catalogue import resolve as resolve_dataset
from rade.diagnose import Diagnosis, Effort, Subject, diagnose, of_dataset, of_run
from rade.diagnose.picture import draw
from rade.diagnose.stored import keep
from rade.diagnose.subject import RatesAsked, untrained
from rade.train.errors import RunError, SettingsError
from rade.train.run import load_run
from rade.train.settings import resolve
from rade.train.stages import corrupted

PICTURES = (".png", ".svg", ".pdf")
OPERATORS = {"clean": "clean", "rade-of": "RADE-OF", "rade-ofs": "RADE-OFS"}


@dataclass(frozen=True)
class Order:
    """The options of `rade diagnose`."""

    subject: str
    backbone: str
    method: str
    epochs: int
    p: float
    rho: float
    anchors: int
    partners: int
    draws: int
    seed: int
    threads: int | None
    data_root: Path | None
    picture: Path | None
    out: Path | None
    json: bool

    def rates(self) -> RatesAsked:
        """The rates asked for, checked."""
        try:
            return RatesAsked(self.p, self.rho)
        except ValueError as error:
            raise SettingsError(str(error)) from None

    def found(self) -> Subject:
        """The model and its graph."""
        folder = Path(self.subject)
        if folder.is_dir():
            if not (folder / "model.pt").is_file():
                raise RunError(
                    f"{folder} holds no model.pt; name the folder of one finished run of rade train, such as "
                    "runs/csbm-gcn/rade-of/run-0, or a data set"
                )
            settings = load_run(folder).settings
            return of_run(folder, corrupted(load(settings.dataset, self.data_root), settings), self.rates(), self.seed)
        if "/" in self.subject or self.subject.startswith("."):
            raise RunError(f"there is no folder {folder}; name a finished run of rade train, or a data set")
        name = resolve_dataset(self.subject).name
        asked: dict[str, Any] = {} if self.epochs == 0 else {"epochs": self.epochs, "patience": 0}
        settings = resolve(name, self.backbone, self.method, seed=self.seed, **asked)
        make = untrained if self.epochs == 0 else of_dataset
        return make(load(name, self.data_root), settings, self.rates(), self.seed)


def execute(order: Order) -> None:
    """Find the subject, measure it, show it."""
    if order.picture is not None and order.picture.suffix.lower() not in PICTURES:
        raise SettingsError(f"--picture draws {', '.join(PICTURES)}, got {order.picture.name}; give it such an ending")
    order.rates()
    if order.threads is not None:
        torch.set_num_threads(order.threads)
    tell: Callable[[str], None] = (lambda text: None) if order.json else lambda text: typer.echo(text, err=True)
    tell("preparing the model …")
    subject = order.found()
    found = diagnose(subject, Effort(order.anchors, order.partners, order.draws, order.seed), tell)
    files = []
    if order.picture is not None:
        draw(found, order.picture)
        files.append(order.picture)
    if order.out is not None:
        files.append(keep(found, order.out))
    if order.json:
        typer.echo(json.dumps({**found.to_json(), "files": [str(file) for file in files]}, indent=1))
        return
    show(found)
    for file in files:
        typer.echo(f"in {file}")


def show(found: Diagnosis) -> None:
    """Two tables: the operators side by side, and sensitivity by distance."""
    console = printable(Console(highlight=False))
    console.print(f"[bold]{found.dataset}[/]: {found.model}", markup=True, soft_wrap=True)
    counts = {"node": found.nodes, "edge": found.edges, "graph": found.graphs, "component": found.components}
    size = ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in counts.items())
    console.print(f"{size}; views with p = {found.p:.3g}, q = {found.q:.3g}", soft_wrap=True)
    for note in found.notes:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(_measures(found))
    console.print(_distances(found))
    console.print(
        "κ: squared messages of non-neighbors over those of neighbors, per node (Prop. 4); one global rate could "
        "replace drops by additions only if it were the same for all nodes.",
        soft_wrap=True,
    )


def _measures(found: Diagnosis) -> Table:
    weights = "" if found.weights == "aggregator" else " (weights of sums: the aggregator's are not symmetric)"
    table = Table(title=f"inference operators{weights}", title_justify="left")
    table.add_column("")
    for label in OPERATORS.values():
        table.add_column(label, justify="right")
    measured = [found.operators[name] for name in OPERATORS]
    table.add_row("spectral gap", *(_number(one.gap) for one in measured))
    if measured[0].gap_largest is not None:
        table.add_row("spectral gap, largest component", *(_number(one.gap_largest) for one in measured))
    table.add_row("effective resistance, mean", *(_number(one.resistance) for one in measured))
    table.add_row("commute time, mean", *(_number(one.commute) for one in measured))
    table.add_row(f"sensitivity from beyond {found.layers} edges", *(_percent(one.beyond) for one in measured))
    for kind, words in (("drop", "edges lost"), ("add", "spurious edges"), ("both", "both")):
        for level in measured[0].flips[kind]:
            name = f"flips, {100 * float(level):g} % {words}"
            table.add_row(name, *(_percent(one.flips[kind][level]) for one in measured))
    ratio = [found.interchange.get(name) for name in OPERATORS]
    spans = ["" if one is None else f"{one.low:.3g}, {one.median:.3g}, {one.high:.3g}" for one in ratio]
    table.add_row("κ: 5 %, median, 95 %", *spans)
    table.add_row("variance made by additions", *("" if one is None else _percent(one.added) for one in ratio))
    return table


def _distances(found: Diagnosis) -> Table:
    table = Table(title="mean ‖∂h_i/∂h⁰_j‖ by distance", title_justify="left")
    for heading in ("distance", "pairs", *OPERATORS.values()):
        table.add_column(heading, justify="right")
    columns = [found.operators[name].steps for name in OPERATORS]
    for steps in zip(*columns):
        first = steps[0]
        distance = "no path" if first.distance < 0 else str(first.distance)
        table.add_row(distance, f"{first.pairs:,}", *(_number(step.sensitivity) for step in steps))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "–" if value is None or value != value else f"{100 * value:.1f} %"
