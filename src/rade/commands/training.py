"""What `rade train` does once its options are read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from rade.augment import METHODS
from rade.commands.display import Display, choose_display
from rade.commands.tensorboard import TensorBoard
from rade.data import Dataset, load
from rade.train.checkpoint import Keeping
from rade.train.compare import Comparison, Together, Watcher, compare
from rade.train.denoising import check_noise, corrupted, parse_noise, pilot
from rade.train.errors import Interrupted, SettingsError
from rade.train.plan import Plan, make_plan, parse_assignment, read_config
from rade.train.process import processes
from rade.train.settings import PROTOCOLS, Settings
from rade.train.stop import stop_on_signal


@dataclass(frozen=True)
class Order:
    """The options of `rade train`: settings, and where things are."""

    chosen: Mapping[str, Any]
    assignments: Sequence[str]
    config: Path | None
    data_root: Path | None
    out: Path | None
    resume: bool
    overwrite: bool
    checkpoint_every: int
    tensorboard: Path | None
    json: bool
    noise: str | None = None

    def plan(self, **found: Any) -> Plan:
        """File, then `--set`, then options, then what was ``found`` on the data."""
        asked: dict[str, Any] = read_config(self.config) if self.config else {}
        for text in self.assignments:
            asked |= parse_assignment(text)
        return make_plan(asked | dict(self.chosen) | found)


def execute(order: Order) -> None:
    """Plan, train, compare, report; on a signal say how to go on and leave with its code."""
    if order.resume and order.overwrite:
        raise SettingsError("--resume and --overwrite contradict each other: one keeps what is there, one replaces it")
    given = {} if order.noise in (None, "auto") else parse_noise(order.noise or "")
    plan = order.plan(**given)
    first = plan.settings[0]
    suffix = "" if plan.protocol == PROTOCOLS[0] else f"-{plan.protocol}"
    out = order.out or Path("runs") / f"{first.dataset}-{first.backbone}{suffix}"
    with processes() as process, stop_on_signal() as stop_asked:
        display = choose_display(order.json, process)
        watcher: Watcher = display
        if order.tensorboard and process.rank == 0:
            watcher = Together(display, TensorBoard(order.tensorboard))
        dataset = corrupted(load(first.dataset, order.data_root), first)
        _check_knows_noise(order, plan)
        if order.noise == "auto":
            plan = order.plan(**_estimated(dataset, first, display))
        for settings in plan.settings:
            check_noise(dataset, settings)
        display.plan(plan, dataset, out)
        try:
            with display:
                comparison = compare(
                    dataset,
                    plan.settings,
                    plan.runs,
                    out,
                    first=plan.first,
                    existing="resume" if order.resume else "overwrite" if order.overwrite else "refuse",
                    watcher=watcher,
                    keeping=Keeping(order.checkpoint_every, stop_asked, process),
                )
        except Interrupted as stopped:
            if process.rank == 0:
                typer.echo(f"{stopped}; the same command with --resume continues", err=True)
            raise typer.Exit(stop_asked.code) from None
        _report(order, plan, comparison, display)


def _check_knows_noise(order: Order, plan: Plan) -> None:
    """Refuse noise where no method could be told of it, before anything is trained."""
    if order.noise is not None and not any(_knows_noise(settings.method) for settings in plan.settings):
        names = ", ".join(settings.method for settings in plan.settings)
        raise SettingsError(
            f"{names} cannot be told of noise in training, RADE can: --method rade-of, or rade-of-fixed --p 0 --rho 0 "
            "for noise alone; rade predict --noise undoes it for any method"
        )


def _knows_noise(method: str) -> bool:
    return "noise_q" in METHODS[method].value.options


def _estimated(dataset: Dataset, settings: Settings, display: Display) -> dict[str, Any]:
    """The noise by up to seven models, trained first."""
    if display.visible:
        typer.echo("noise: up to seven models are trained first, one of them plainly", err=True)
    found = pilot(dataset, settings)
    if display.visible:
        typer.echo(f"noise: {found}", err=True)
    return found.options


def _report(order: Order, plan: Plan, comparison: Comparison, display: Display) -> None:
    if order.json and display.visible:
        settings = [settings.model_dump(mode="json") for settings in plan.settings]
        typer.echo(json.dumps({"settings": settings, "runs": plan.runs, **comparison.to_json()}, indent=1))
    else:
        display.comparison(comparison)
    if display.visible:
        for line in unlike(plan):
            typer.echo(f"note: {line}", err=True)
        for line in warnings_of(comparison):
            typer.echo(f"warning: {line}", err=True)
        for line in notes_of(comparison):
            typer.echo(f"note: {line}", err=True)


def unlike(plan: Plan) -> list[str]:
    """That some methods were told of noise and others were not."""
    told = [one.method for one in plan.settings if one.options.get("noise_p") or one.options.get("noise_q")]
    others = [settings.method for settings in plan.settings if settings.method not in told]
    if not told or not others:
        return []
    return [
        f"{', '.join(told)} undid noise in the graph and {', '.join(others)} did not: the difference is that of both; "
        "rade-of-fixed --p 0 --rho 0 undoes noise alone"
    ]


def warnings_of(comparison: Comparison) -> list[str]:
    """What a user should know about runs that ended well: rates that could not adapt."""
    return [
        f"{method} run {result.run}: {result.skipped} rate steps were not finite and were left out, so the rates "
        "adapted less than they should; a smaller --lr or another first --p may help"
        for method, results in comparison.results.items()
        for result in results
        if result.skipped
    ]


_FELL = {
    "p": "the noise's gradient stayed above the data's, which lowers the rates until both balance or nothing is left; "
    "usual once a model fits its training labels; the methods rade-of-fixed and rade-of-noise keep some",
    "q": "the noise's gradient stayed above the data's, or the penalty on additions was all that was left; a smaller "
    "--set penalty=..., or the method rade-of-fixed, keeps some",
}


def notes_of(comparison: Comparison) -> list[str]:
    """What a user may wonder about: rates that began above 0 and adapted down to it."""
    lines = []
    for method, results in comparison.results.items():
        for rate, reason in _FELL.items():
            paths = [result["history"][rate] for result in results]
            fell = sum(path[-1] == 0 < max(path) for path in paths)
            if fell:
                lines.append(f"{method}: {rate} fell to 0 in {fell} of {len(paths)} runs: {reason} (docs/rates.md)")
    return lines
