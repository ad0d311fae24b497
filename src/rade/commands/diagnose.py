"""`rade diagnose`: how RADE's inference changes the flow of information through a graph."""

import json as jsonlib
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rade.diagnose import Diagnosis, Subject

OPERATORS = ("clean, RADE-OF", "RADE-OFS")


def diagnose(
    subject: Annotated[
        str, typer.Argument(metavar="DATASET|RUN", help="A data set, or the folder of a finished run of rade train.")
    ],
    backbone: Annotated[str, typer.Option(help="Of the model that is trained on a data set.")] = "gcn",
    method: Annotated[str, typer.Option(help="Method it is trained with; see rade train --help.")] = "none",
    epochs: Annotated[int, typer.Option(min=0, max=10**9, help="Epochs it is trained for; 0: not at all.")] = 50,
    p: Annotated[float, typer.Option("--p", help="Drop rate of the views, where the model has none of its own.")] = 0.5,
    rho: Annotated[float, typer.Option(help="The add rate, over the edge density, in the same case.")] = 0.5,
    anchors: Annotated[int, typer.Option(min=1, max=10**6, help="Nodes that sensitivities are taken from.")] = 16,
    partners: Annotated[int, typer.Option(min=1, max=10**6, help="Nodes paired with each for resistances.")] = 8,
    draws: Annotated[int, typer.Option(min=1, max=10**6, help="Noisy graphs per kind and share of noise.")] = 4,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Seed of everything that is sampled.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else ~/.cache/rade.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder of results: keep it in studies/diagnoses/ there, for rade report.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Compare the clean, RADE-OF and RADE-OFS inference operators of a data set, or of a finished run with its model.

    Spectral gap, effective resistance and commute time between sampled nodes, sensitivity of a node's representation
    to others by their distance, how often predictions flip under edge noise, and the ratio of Prop. 4, which tells
    whether additions could replace drops. RADE-OF predicts on the clean graph, so its numbers are the clean ones.

    Examples:

        rade diagnose csbm

        rade diagnose cora --epochs 100

        rade diagnose runs/mutag-gin/rade-ofs/run-0 --out results
    """
    import torch

    from rade.diagnose import diagnose as measure
    from rade.errors import SettingsError
    from rade.rates.rules import Constant

    try:
        Constant(p, rho)  # checks both
    except ValueError as error:
        raise SettingsError(str(error)) from None
    if threads is not None:
        torch.set_num_threads(threads)
    place: dict[str, Any] = {"data_root": data_root, "p": p, "rho": rho, "seed": seed}
    run = _run(subject)
    model = _of_dataset(subject, backbone, method, epochs, **place) if run is None else _of_run(run, **place)
    found = measure(model, anchors, partners, draws, seed)
    files = [] if out is None else [_keep(found, out)]
    if json:
        typer.echo(jsonlib.dumps({**found, "files": [str(file) for file in files]}, indent=1))
        return
    _show(found)
    for file in files:
        typer.echo(f"in {file}")


def _run(subject: str) -> Path | None:
    """The folder of a finished run, if that is what is meant."""
    from rade.errors import RunError

    folder = Path(subject)
    if folder.is_dir() and not (folder / "model.pt").is_file():
        raise RunError(
            f"{folder} holds no model.pt; name the folder of one finished run of rade train, such as "
            "runs/csbm-gcn/rade-of/run-0, or a data set"
        )
    if not folder.is_dir() and ("/" in subject or subject.startswith(".")):
        raise RunError(f"there is no folder {folder}; name a finished run of rade train, or a data set")
    return folder if folder.is_dir() else None


def _of_run(folder: Path, data_root: Path | None, **options: Any) -> "Subject":
    from rade.data import load
    from rade.diagnose import subject_of
    from rade.train.run import load_run
    from rade.train.stages import corrupted

    trained = load_run(folder)
    settings = trained.settings
    words = f"{settings.backbone}, {settings.method}, {settings.layers} layers, from {folder}"
    return subject_of(trained, corrupted(load(settings.dataset, data_root), settings), words, **options)


def _of_dataset(
    name: str, backbone: str, method: str, epochs: int, data_root: Path | None, seed: int, **options: Any
) -> "Subject":
    """A model that is trained now, or has its first parameters."""
    from rade.data import load
    from rade.data.catalogue import resolve as resolve_dataset
    from rade.diagnose import subject_of
    from rade.train.model import Shape, Trained, build_learner
    from rade.train.run import load_run, train_run
    from rade.train.settings import resolve

    asked: dict[str, Any] = {} if epochs == 0 else {"epochs": epochs, "patience": 0}
    settings = resolve(resolve_dataset(name).name, backbone, method, seed=seed, **asked)
    dataset = load(name, data_root)
    words = f"{settings.backbone}, {settings.method}, {settings.layers} layers, "
    if epochs == 0:
        shape = Shape.of(dataset)
        trained = Trained(settings, shape, settings.seed, build_learner(settings, shape, settings.seed).eval())
        return subject_of(trained, dataset, words + "not trained", seed=seed, **options)
    with TemporaryDirectory() as folder:
        train_run(dataset, settings, 0, Path(folder))
        trained = load_run(folder)
    return subject_of(trained, dataset, f"{words}trained for {settings.epochs} epochs", seed=seed, **options)


def _keep(found: "Diagnosis", store: Path) -> Path:
    """Write a diagnosis into a folder of results, named by data set and model: one of the same model is replaced."""
    from rade.train.files import save_json

    name = re.sub(r"\W+", "-", f"{found['dataset']} {found['model']}")
    path = store / "studies" / "diagnoses" / f"{name}.json"
    save_json(path, {"format": 1, **found})
    return path


def _show(found: "Diagnosis") -> None:
    """Two tables: the operators side by side, and sensitivity by distance."""
    from rich import box
    from rich.console import Console

    from rade.commands.display import lined_up, many, printable
    from rade.report.words import diagnosis, facts, figure, percent

    console = printable(Console(highlight=False, soft_wrap=True))
    console.print(f"[bold]{found['dataset']}[/]: {found['model']}", markup=True)
    console.print(f"{facts(found)}; {many(found['components'], 'component')}")
    for note in found["notes"]:
        console.print(f"note: {note}")
    both = [found["interchange"][name] for name in ("rade-of", "rade-ofs")]
    lines: list[tuple[str, ...]] = [*diagnosis(found)]
    quantiles = (", ".join(f"{one[name]:.3g}" for name in ("low", "median", "high")) for one in both)
    lines += [("κ: 5 %, median, 95 %", *quantiles)]
    lines += [("variance made by additions", *(percent(one["added"]) for one in both))]
    weights = "" if found["weights"] == "aggregator" else " (weights of sums: the aggregator's are not symmetric)"
    look = {"box": box.SIMPLE_HEAD, "title_justify": "left"}
    console.print(lined_up(("", *OPERATORS), lines, [""], title=f"inference operators{weights}", **look))
    lines = []
    for clean, ofs in zip(found["operators"]["clean"]["steps"], found["operators"]["rade-ofs"]["steps"]):
        far = "no path" if clean["distance"] < 0 else str(clean["distance"])
        lines.append((far, f"{clean['pairs']:,}", figure(clean["sensitivity"]), figure(ofs["sensitivity"])))
    title = "mean ‖∂h_i/∂h⁰_j‖ by distance"
    console.print(lined_up(("distance", "pairs", *OPERATORS), lines, [], title=title, **look))
    console.print(
        "κ: squared messages of non-neighbors over those of neighbors, per node (Prop. 4); one global rate could "
        "replace drops by additions only if it were the same for all nodes."
    )
