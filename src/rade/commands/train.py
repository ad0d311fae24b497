"""`rade train`: train and compare methods on one data set."""

from pathlib import Path
from typing import Annotated

import typer

_METHODS = (
    "none, dropout, drop-edge, drop-node, drop-message, virtual-node, rade-of, rade-ofs, or another form: "
    "rade-of-fixed, rade-of-noise, rade-of-uncorrected, rade-of-drop, rade-of-add, rade-of-delta, "
    "rade-of-sampled, rade-of-layered (and rade-ofs-…)."
)


def train(
    dataset: Annotated[
        str | None, typer.Option(help="Data set (default csbm); `rade datasets list` shows all.")
    ] = None,
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
    from rade.commands.training import Order, execute

    chosen = {name: value for name, value in given.items() if value is not None}
    execute(
        Order(chosen, set_ or [], config, data_root, out, resume, overwrite, checkpoint_every, tensorboard, json, noise)
    )
