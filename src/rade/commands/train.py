"""`rade train`: train and compare methods on one data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # at run time where they are needed: help and bad options do not wait for PyTorch
    from rade.commands.display import Display
    from rade.data import Dataset
    from rade.report.judge import Verdict
    from rade.train.folder import Results, Summaries
    from rade.train.settings import Order, Settings

_METHODS = (
    "none, dropout, drop-edge, drop-node, drop-message, virtual-node, rade-of, rade-ofs, or another form: "
    "rade (as rade.RADE is by default), rade-of-fixed, rade-of-noise, rade-of-uncorrected, rade-of-drop, rade-of-add, "
    "rade-of-delta, rade-of-sampled, rade-of-layered (and rade-ofs-…), or module:object for a rade.train.Method of "
    "your own."
)


def train(
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
    fixed_rates: Annotated[bool, typer.Option("--fixed-rates", help="Keep RADE's first rates.")] = False,
    noise: Annotated[
        str | None,
        typer.Option(
            help="P,Q: rates at which the graph has lost real edges and gained spurious ones; P,Q,KIND also "
            "says by what edges are trusted: features, common-neighbors or degrees; auto finds out by validation."
        ),
    ] = None,
    corrupt: Annotated[
        str | None, typer.Option(help="DROP,ADD[,SEED]: drop edges, add spurious ones (1 = as many as real ones).")
    ] = None,
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
    tensorboard: Annotated[Path | None, typer.Option(help="Also write TensorBoard logs to this folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Train and compare methods on one data set; settings not given follow the released protocol.

    Without options: a GCN in five ways (plain, Dropout, DropEdge, RADE-OF, RADE-OFS) on the embedded data set, in
    a minute or two.

    Examples:

        rade train

        rade train --dataset cora --backbone gat --method rade-of --runs 5

        rade train --dataset mutag --method none,drop-edge,rade-ofs

        rade train --dataset cora --method rade-of --p 0.3 --rho 0.5 --fixed-rates

        rade train --dataset csbm --corrupt 0,1 --method none,rade-of --noise auto

        torchrun --nproc-per-node 2 -m rade train --dataset ogbg-molhiv --method rade-of
    """
    given = {
        "dataset": dataset, "backbone": backbone, "method": method or None, "protocol": protocol, "runs": runs,
        "run": run, "epochs": epochs,
        "patience": patience, "hidden": hidden, "layers": layers, "lr": lr, "batch_size": batch_size,
        "fanouts": fanouts, "rate": rate, "p": p, "rho": rho, "penalty": penalty,
        "adaptive": False if fixed_rates else None, "seed": seed, "threads": threads, "device": device,
        "corrupt": corrupt,
    }  # fmt: skip
    if resume and overwrite:
        from rade.errors import SettingsError

        raise SettingsError("--resume and --overwrite contradict each other: one keeps what is there, one replaces it")
    from rade.train.settings import make_order, parse_assignment, read_config

    asked: dict[str, Any] = read_config(config) if config else {}
    for text in set_ or []:
        asked |= parse_assignment(text)
    asked |= {name: value for name, value in given.items() if value is not None}

    def order(**found: Any) -> Order:
        return make_order(asked | found)

    existing = "resume" if resume else "overwrite" if overwrite else "refuse"
    _execute(order, noise, data_root, out, existing, checkpoint_every, tensorboard, json)


def _execute(
    order: Callable[..., Order],
    noise: str | None,
    data_root: Path | None,
    out: Path | None,
    existing: Any,
    every: int,
    tensorboard: Path | None,
    json: bool,
) -> None:
    """Plan, train, compare, report; on a signal say how to go on and leave with its code."""
    from rade.commands.display import choose_display
    from rade.commands.tensorboard import TensorBoard
    from rade.data import load
    from rade.errors import Interrupted
    from rade.train.denoising import check_noise, parse_noise
    from rade.train.folder import train_all
    from rade.train.process import processes, stop_on_signal
    from rade.train.protocol import PROTOCOLS
    from rade.train.run import Keeping
    from rade.train.stages import corrupted

    asked = order(**({} if noise in (None, "auto") else parse_noise(noise or "")))
    first = asked.settings[0]
    suffix = "" if asked.protocol == PROTOCOLS[0] else f"-{asked.protocol}"
    out = out or Path("runs") / f"{first.dataset}-{first.backbone}{suffix}"
    with processes() as process, stop_on_signal() as stop_asked:
        display = choose_display(json, process)
        logs = [TensorBoard(tensorboard)] if tensorboard and process.rank == 0 else []
        dataset = corrupted(load(first.dataset, data_root), first)
        if noise is not None:
            _check_knows_noise(asked)
        if noise == "auto":
            asked = order(**_estimated(dataset, first, display.visible))
        for settings in asked.settings:
            check_noise(dataset, settings)
        display.plan(asked, dataset, out)
        runs, keeping = range(asked.first, asked.first + asked.runs), Keeping(every, stop_asked, process)
        try:
            with display:
                found = train_all(
                    dataset, asked.settings, runs, out, existing=existing, watchers=[display, *logs], keeping=keeping
                )
        except Interrupted as stopped:
            if process.rank == 0:
                typer.echo(f"{stopped}; the same command with --resume continues", err=True)
            raise typer.Exit(stop_asked.code) from None
        _report(asked, found, display, json)


def _check_knows_noise(order: Order) -> None:
    """Refuse noise where no method could be told of it, before anything is trained."""
    from rade.errors import SettingsError
    from rade.train.methods import find_method

    names = [settings.method for settings in order.settings]
    if not any("noise_q" in find_method(name).value.options for name in names):
        raise SettingsError(
            f"{', '.join(names)} cannot be told of noise in training, RADE can: --method rade-of, or rade-of-fixed "
            "--p 0 --rho 0 for noise alone; rade predict --noise undoes it for any method"
        )


def _estimated(dataset: Dataset, settings: Settings, visible: bool) -> dict[str, Any]:
    """The noise by up to seven models, trained first."""
    from rade.train.denoising import pilot

    if visible:
        typer.echo("noise: up to seven models are trained first, one of them plainly", err=True)
    found = pilot(dataset, settings)
    if visible:
        typer.echo(f"noise: {found}", err=True)
    return found.options


def _report(order: Order, found: Summaries, display: Display, json: bool) -> None:
    import json as format

    if json and display.visible:
        settings = [settings.model_dump(mode="json") for settings in order.settings]
        typer.echo(format.dumps({"settings": settings, "runs": order.runs, **found.to_json()}, indent=1))
    else:
        display.comparison(found)
        for verdict in verdicts_of(found) if display.visible else ():
            typer.echo(str(verdict))
    if display.visible:
        for line in unlike(order):
            typer.echo(f"note: {line}", err=True)
        for line in warnings_of(found.results):
            typer.echo(f"warning: {line}", err=True)
        for line in notes_of(found.results):
            typer.echo(f"note: {line}", err=True)


def verdicts_of(found: Summaries) -> tuple[Verdict, ...]:
    """Every other method against the first, as one family."""
    from rade.report.judge import correct, judge

    first, *others = found.each
    verdicts = [judge(one.method, first.method, one.scores, first.scores, first.folds) for one in others]
    return correct([one for one in verdicts if one is not None])


def unlike(order: Order) -> list[str]:
    """That some methods were told of noise and others were not."""
    told = [one.method for one in order.settings if one.options.get("noise_p") or one.options.get("noise_q")]
    others = [settings.method for settings in order.settings if settings.method not in told]
    if not told or not others:
        return []
    return [
        f"{', '.join(told)} undid noise in the graph and {', '.join(others)} did not: the difference is that of both; "
        "rade-of-fixed --p 0 --rho 0 undoes noise alone"
    ]


def warnings_of(results: Results) -> list[str]:
    """What a user should know about runs that ended well: rates that could not adapt."""
    return [
        f"{method} run {result.run}: {result.skipped} rate steps were not finite and were left out, so the rates "
        "adapted less than they should; a smaller --lr or another first --p may help"
        for method, runs in results.items()
        for result in runs
        if result.skipped
    ]


_FELL = {
    "p": "the noise's gradient stayed above the data's, which lowers the rates until both balance or nothing is left; "
    "usual once a model fits its training labels; the methods rade-of-fixed and rade-of-noise keep some",
    "q": "the noise's gradient stayed above the data's, or the penalty on additions was all that was left; a smaller "
    "--set penalty=..., or the method rade-of-fixed, keeps some",
}


def notes_of(results: Results) -> list[str]:
    """What a user may wonder about: rates that began above 0 and adapted down to it."""
    lines = []
    for method, runs in results.items():
        for rate, reason in _FELL.items():
            paths = [run.history[rate] for run in runs]
            fell = sum(path[-1] == 0 < max(path) for path in paths)
            if fell:
                lines.append(f"{method}: {rate} fell to 0 in {fell} of {len(paths)} runs: {reason} (docs/rates.md)")
    return lines
