"""`rade train`: train and compare methods on one data set."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # at run time where they are needed: help and bad options do not wait for PyTorch
    from rade.commands.display import Display
    from rade.data import Dataset
    from rade.train.record import RunRecord
    from rade.train.run import Keeping
    from rade.train.settings import Order, Settings

Results = dict[str, list["RunRecord"]]  # by method
_METHODS = (
    "none, dropout, drop-edge, drop-node, drop-message, virtual-node, rade-of, rade-ofs, or another form: "
    "rade (as rade.RADE is by default), rade-of-fixed, rade-of-noise, rade-of-uncorrected, rade-of-drop, rade-of-add, "
    "rade-of-delta, rade-of-layered (and rade-ofs-…), or module:object for a rade.train.Method of your own."
)
# Options that are no settings of the same name.
_OTHERS = {"set_", "config", "data_root", "out", "resume", "overwrite", "checkpoint_every", "json"}


def train(
    context: typer.Context,
    dataset: Annotated[str | None, typer.Option(help="Data set (default csbm); `rade datasets` shows all.")] = None,
    backbone: Annotated[str | None, typer.Option(help="gcn (default), gin, gat, sgc, gin-lin or sage.")] = None,
    method: Annotated[list[str] | None, typer.Option(help=f"Repeat it, or separate by commas: {_METHODS}")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Where defaults come from: released (default), the authors' code, which made the paper's numbers; "
            "or paper, the text, which differs from it and does not reach those numbers everywhere."
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Seeds, or folds where the data set has them.")] = None,
    run: Annotated[int | None, typer.Option(help="Only this run, counted from 0, instead of --runs.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Most epochs.")] = None,
    patience: Annotated[int | None, typer.Option(help="Epochs without improvement before stopping; 0: never.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the hidden layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="Number of convolutions.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Seed nodes or graphs per step; 0: the whole graph.")] = None,
    fanouts: Annotated[str | None, typer.Option(help="Sampled neighbors per layer, e.g. 15,10.")] = None,
    rate: Annotated[float | None, typer.Option(help="Drop rate of a baseline.")] = None,
    p: Annotated[float | None, typer.Option("--p", help="First drop rate of RADE.")] = None,
    rho: Annotated[float | None, typer.Option(help="First add rate of RADE, over the edge density.")] = None,
    penalty: Annotated[float | None, typer.Option(help="Weight of RADE's penalty on additions.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as NAME=VALUE; may repeat.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Run r uses seed + r.")] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="CPU threads, 0: as PyTorch chooses; results repeat bit for bit at equal threads."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with any of these settings; options win.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else ~/.cache/rade.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results; default runs/DATASET-BACKBONE.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Skip finished runs, continue unfinished ones.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace unfinished runs and results of other settings in --out.")
    ] = False,
    checkpoint_every: Annotated[int, typer.Option(min=1, max=10**9, help="Epochs between checkpoints.")] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Train and compare methods on one data set; settings not given follow the released protocol.

    Without options: a GCN in six ways (plain, Dropout, DropEdge, RADE as rade.RADE is by default, RADE-OF and RADE-OFS)
    on the embedded data set, in a minute.

    Examples:

        rade train

        rade train --dataset cora --backbone gat --method rade-of --runs 5

        rade train --dataset mutag --method none,drop-edge,rade-ofs

        rade train --dataset cora --method rade-of-fixed --p 0.3 --rho 0.5

        torchrun --nproc-per-node 2 -m rade train --dataset ogbg-molhiv --method rade-of
    """
    from rade.errors import SettingsError
    from rade.train.protocol import read_toml
    from rade.train.settings import parse_assignment

    if resume and overwrite:
        raise SettingsError("--resume and --overwrite contradict each other: one keeps results, one replaces them")
    asked: dict[str, Any] = read_toml(config) if config else {}
    for text in set_ or []:
        asked |= parse_assignment(text)
    given = {name: value for name, value in context.params.items() if value not in (None, ())}
    asked |= {name: value for name, value in given.items() if name not in _OTHERS}
    existing = "resume" if resume else "overwrite" if overwrite else "refuse"
    _execute(asked, data_root, out, existing, checkpoint_every, json)


def _execute(
    asked: dict[str, Any], data_root: Path | None, out: Path | None, existing: str, every: int, json: bool
) -> None:
    """Plan, train, compare, report; on a signal say how to go on and leave with its code."""
    from rade.commands.display import Display
    from rade.data import load
    from rade.errors import Interrupted
    from rade.train.process import processes, rank, stop_on_signal
    from rade.train.protocol import PROTOCOLS
    from rade.train.run import Keeping
    from rade.train.settings import make_order

    order = make_order(asked)
    first = order.settings[0]
    suffix = "" if first.protocol == PROTOCOLS[0] else f"-{first.protocol}"
    out = out or Path("runs") / f"{first.dataset}-{first.backbone}{suffix}"
    with processes(), stop_on_signal() as stop_asked:
        display = Display(quiet=json or rank() > 0)
        dataset = load(first.dataset, data_root)
        display.plan(order, dataset, out)
        try:
            with display.bar:
                results = _train_all(dataset, order, out, existing, Keeping(every, stop_asked), display)
        except Interrupted as stopped:
            if rank() == 0:
                typer.echo(f"{stopped}; the same command with --resume continues", err=True)
            raise typer.Exit(stop_asked.code) from None
        if rank() == 0:
            _report(order, results, out, json)


def _train_all(dataset: Dataset, order: Order, out: Path, existing: str, keeping: Keeping, display: Display) -> Results:
    """Every method on every run, below `out`, where nobody else may write meanwhile.

    existing: what becomes of unfinished runs and results of other settings: refuse, resume or overwrite.
    """
    import torch

    from rade.train.process import holding
    from rade.train.run import refuse_to_lose, train_run
    from rade.train.tasks import problem_of

    problems = {settings.method: problem_of(dataset, settings) for settings in order.settings}
    for problem in problems.values():
        problem.split(order.runs[-1])  # refused now, not after the runs before it
    jobs = list(product(order.settings, order.runs))
    results: Results = {settings.method: [] for settings in order.settings}
    with holding(out):
        for settings, run in jobs if existing == "refuse" else ():
            refuse_to_lose(_folder(out, settings, run), settings, run, problems[settings.method])
        for settings, run in jobs:
            if settings.threads:
                torch.set_num_threads(settings.threads)
            display.begin(settings, run)
            folder, kept = _folder(out, settings, run), existing == "resume"
            result = train_run(dataset, settings, run, folder, resume=kept, observe=display.epoch, keeping=keeping)
            results[settings.method].append(result)
            display.end(result)
    return results


def _folder(out: Path, settings: Settings, run: int) -> Path:
    """Where a run's files are; a method of one's own is named with a dot for the colon."""
    return out / settings.method.replace(":", ".") / f"run-{run}"


def _report(order: Order, results: Results, out: Path, json: bool) -> None:
    """Leave `summary.json` and `curves.png`; say what came out, and what to know about it."""
    import json as format

    from rade.comparison.outcome import Comparison
    from rade.train.files import save_json, write_whole

    found, picture = Comparison.of(results), out / "curves.png"
    figure = found.curves()
    settings = [settings.model_dump(mode="json") for settings in order.settings]
    document = {"settings": settings, "folder": str(out), "picture": str(picture), **found.asdict()}
    save_json(out / "summary.json", document)
    write_whole(picture, lambda file: figure.savefig(file, format="png", dpi=120))
    if json:
        typer.echo(format.dumps(document, indent=1))
    else:
        typer.echo(f"{found}\ncurves: {picture}\nresults: {out}/METHOD/run-N/result.json")
    for line in notes_of(results):
        typer.echo(line, err=True)


def notes_of(results: Results) -> list[str]:
    """What a user should know about runs that ended well."""
    lines = []
    for method, runs in results.items():
        for run in runs:
            if run.skipped:
                lines.append(
                    f"warning: {method} run {run.run}: {run.skipped} rate steps were not finite and were left out, so "
                    "the rates adapted less than they should; a smaller --lr or another first --p may help"
                )
        for rate, reason in _FELL.items():
            paths = [run.history[rate] for run in runs]
            fell = sum(path[-1] == 0 < max(path) for path in paths)
            if fell:
                lines.append(
                    f"note: {method}: {rate} fell to 0 in {fell} of {len(runs)} runs: {reason} (docs/rates.md)"
                )
    return lines


_FELL = {
    "p": "the noise's gradient stayed above the data's, which lowers the rates until both balance or nothing is left; "
    "usual once a model fits its training labels; the methods rade-of-fixed and rade-of-noise keep some",
    "q": "the noise's gradient stayed above the data's, or the penalty on additions was all that was left; a smaller "
    "--set penalty=..., or the method rade-of-fixed, keeps some",
}
