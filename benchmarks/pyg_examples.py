"""PyG's own examples with one line added, ``model = rade.RADE(model)``: which run, use views, and evaluate as before.

    python -m benchmarks.pyg_examples ../pyg/examples --data DATA                 # prints the table
    python -m benchmarks.pyg_examples ../pyg/examples --data DATA --only gcn.py   # one of them
    python -m benchmarks.pyg_examples ../pyg/examples --data DATA --out benchmarks/pyg_examples.md

Every script is read from a checkout of PyG, changed in memory and run in a process of its own for at most a minute:
loops over epochs are cut, data and samplers are those of `pyg_offline.py`, and the line stands before the optimizer is
built. A script works if it ends without an error (or trained until its time was over), a layer drew views in training,
and in evaluation the wrapped model gives what the plain one with the same weights does. A script that fails is run
again without the line, so that what this machine lacks is told from what RADE breaks.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import platform
import re
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from benchmarks.pyg_offline import install

import rade

SECONDS, PATIENCE = 40, 60  # of a script before it is cut, and before it is ended
EPOCHS, STEPS = 2, 3  # of a loop over epochs; of others with more than MANY rounds
MANY = 30
TOLERANCE = 1e-4  # of the largest output
FOLDERS = ("", "hetero", "explain", "pytorch_lightning", "compile", "contrib", "jit", "pytorch_ignite")

# What is wrapped where it is not the variable ``model``, or not before its optimizer: (the line, the text of the
# statement that it precedes; "" for the optimizer).
LINES: dict[str, tuple[str, str]] = {
    "glnn.py": ("gnn = rade.RADE(gnn)", "gnn_optimizer ="),
    "ar_link_pred.py": ("encoder = rade.RADE(encoder)", "optimizer ="),
    "pytorch_lightning/gin.py": ("self.gnn = rade.RADE(self.gnn)", "self.classifier ="),
    "pytorch_lightning/graph_sage.py": ("self.gnn = rade.RADE(self.gnn)", "self.train_acc ="),
    "pytorch_lightning/relational_gnn.py": ("self.model = rade.RADE(self.model)", "self.train_acc ="),
    "tgn.py": ("gnn = rade.RADE(gnn)", "optimizer ="),
    "compile/gcn.py": ("model = rade.RADE(model)", "model = torch.compile"),
    "compile/gin.py": ("model = rade.RADE(model)", "model = torch.compile"),
}
ARGUMENTS: dict[str, list[str]] = {"kge_fb15k_237.py": ["--model", "transe"]}
AGAIN = ("rgcn.py --dataset BGS",)  # with other arguments: RGCNConv in the place of FastRGCNConv
# Why a script is not one for RADE, or cannot run here.
NO_CONVOLUTION = "has no graph convolution"
NO_TRAINING = "trains nothing"
SCRIPT = "TorchScript compiles source and cannot hold RADE: train, then script rade.revert(model)"
WITHOUT: dict[str, str] = {
    "correct_and_smooth.py": f"{NO_CONVOLUTION}: an MLP, smoothed afterwards",
    "datapipe.py": f"{NO_TRAINING}, and needs a download",
    "egc.py": "needs torch-sparse: PyG's EGConv takes no sparse matrix of torch's",
    "equilibrium_median.py": NO_CONVOLUTION,
    "kge_fb15k_237.py": NO_CONVOLUTION,
    "label_prop.py": NO_TRAINING,
    "lcm_aggr_2nd_min.py": NO_CONVOLUTION,
    "node2vec.py": f"{NO_CONVOLUTION}; needs pyg-lib",
    "ogc.py": f"{NO_CONVOLUTION}: a linear map of features that are smoothed before",
    "pmlp.py": "trains an MLP; its convolutions run in evaluation alone",
    "proteins_diff_pool.py": f"{NO_CONVOLUTION} on edges: its layers take dense adjacencies",
    "qm9_pretrained_dimenet.py": f"{NO_TRAINING}; needs tensorflow",
    "qm9_pretrained_schnet.py": f"{NO_TRAINING}; needs ase",
    "renet.py": NO_CONVOLUTION,
    "sign.py": f"{NO_CONVOLUTION}: an MLP of features that are propagated before",
    "wl_kernel.py": "has no model to train: a kernel and an SVM",
    "hetero/load_csv.py": f"{NO_TRAINING}; needs sentence-transformers",
    "hetero/metapath2vec.py": f"{NO_CONVOLUTION}; needs a download",
    "graphland.py": "needs a download",
    "lpformer.py": "needs a download",
    **{f"jit/{name}.py": SCRIPT for name in ("film", "gat", "gcn", "gin")},
}


@dataclass
class Outcome:
    """What came of one script."""

    name: str
    runs: bool = False
    views: bool = False
    equal: bool | None = None
    note: str = ""
    layers: list[str] = field(default_factory=list)

    @property
    def works(self) -> bool:
        return self.runs and self.views and self.equal is True


# ---- the script, changed -------------------------------------------------------------------------------------------


class Shorter(ast.NodeTransformer):
    """Loops over epochs cut to a few, no worker processes, no GPU."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in ("strategy", "devices"):  # of Lightning
            node.value = ast.Constant("auto" if node.targets[0].id == "strategy" else 1)
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        if name in ("epoch", "run", "t"):
            for call in ast.walk(node.iter):
                if _is_range(call):
                    call.args = _cut(call.args, EPOCHS)  # type: ignore[attr-defined]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """What torch-sparse is asked for here are loaders, which are ours, or adjacencies, which torch has as well."""
        return ast.Constant(True) if node.id == "WITH_TORCH_SPARSE" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        last = node.args[-1] if _is_range(node) else None
        if isinstance(last, ast.Constant) and isinstance(last.value, int) and last.value > MANY:
            node.args = _cut(node.args, STEPS)
        for keyword in node.keywords:
            if keyword.arg in ("num_workers", "persistent_workers"):
                keyword.value = ast.Constant(False if keyword.arg.startswith("p") else 0)
            if keyword.arg in ("max_epochs", "epochs") and isinstance(keyword.value, ast.Constant):
                keyword.value = ast.Constant(EPOCHS)
        return node


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _cut(args: list[ast.expr], rounds: int) -> list[ast.expr]:
    first = args[0] if len(args) > 1 else ast.Constant(0)
    return [first, ast.BinOp(first, ast.Add(), ast.Constant(rounds))]


def changed(name: str, text: str, wrap: bool) -> str:
    """The source of a script with shorter loops, and the line."""
    tree = Shorter().visit(ast.parse(text))
    if wrap:
        line, before = LINES.get(name, ("model = rade.RADE(model)", ""))
        if not _insert(tree, line, before):
            raise LookupError("no model was found that the line could wrap")
    return ast.unparse(ast.fix_missing_locations(tree))


def _insert(tree: ast.AST, line: str, before: str) -> bool:
    """Put the line before a statement, wherever it stands; else after the model is built."""
    variable = line.split(" = ")[0]
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    done = False
    for body in bodies:
        for statement in list(body):
            text = ast.unparse(statement)
            optimizer = isinstance(statement, ast.Assign) and f"{variable}." in text and "parameters()" in text
            if text.startswith(before) if before else optimizer:
                body.insert(body.index(statement), _parsed(line))
                done = True
                break
    if done or before:
        return done
    for body in bodies:
        built = [k for k, statement in enumerate(body) if _builds(statement, variable)]
        if built:
            body.insert(built[-1] + 1, _parsed(line))
            return True
    return False


def _parsed(line: str) -> ast.stmt:
    return ast.parse(line).body[0]


def _builds(statement: ast.stmt, variable: str) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    calls = any(isinstance(part, ast.Call) for part in ast.walk(statement.value))
    names = [part.id for end in statement.targets for part in ast.walk(end) if isinstance(part, ast.Name)]
    return calls and variable in names


# ---- one script, in a process of its own ---------------------------------------------------------------------------


class TimeIsOver(BaseException):
    """The script has run long enough."""


class Watch:
    """Looks on while a script calls its wrapped model, and compares evaluations at its end."""

    def __init__(self) -> None:
        self.layers: set[str] = set()
        self.call: tuple[Any, ...] | None = None
        watch, called, trained = self, rade.RADE._call, rade.RADE._trained

        def call(model: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
            if model._context.here.current is None and (watch.call is None or method is model.wrapped):
                name = "" if method is model.wrapped else method.__name__
                watch.call = (model, name, *_copied(args, kwargs))
            return called(model, method, *args, **kwargs)

        def note(model: Any, run: Any, later: Any, present: Any, output: Any) -> None:
            if present.drew:
                watch.layers |= {type(layer).__name__ for layer in present.calls}
            trained(model, run, later, present, output)

        rade.RADE._call, rade.RADE._trained = call, note  # type: ignore[assignment, method-assign]

    def equal(self) -> tuple[bool | None, str]:
        """Whether the wrapped model evaluates as the plain one."""
        if self.call is None:
            return None, "the wrapped model was never called"
        model, name, args, kwargs = self.call
        outputs = []
        for one in (model, model.wrapped):  # the very weights: not every model can be copied
            if one is model.wrapped:
                rade.revert(model)
            torch.manual_seed(0)
            run, (given, named) = getattr(one.eval(), name) if name else one.eval(), _copied(args, kwargs)
            with torch.no_grad():
                outputs.append(list(tensors(run(*given, **named))))
        gaps = [gap(a, b) for a, b in zip(*outputs, strict=True)]
        if not gaps:
            return None, "its output has no tensor to compare"
        return max(gaps) < TOLERANCE, "" if max(gaps) < TOLERANCE else f"evaluation is off by {max(gaps):.1g}"


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call; some models change the dictionaries that they are given."""
    both = [dict(value) if isinstance(value, dict) else value for value in args], dict(kwargs)
    return both[0], {name: dict(value) if isinstance(value, dict) else value for name, value in both[1].items()}


def tensors(value: Any) -> Any:
    """The tensors of numbers in an output."""
    if isinstance(value, torch.Tensor):
        yield value.to_dense() if value.layout != torch.strided else value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)


def gap(first: Any, second: Any) -> float:
    """The largest difference, relative to the largest value."""
    if first.shape != second.shape:
        return float("inf")
    first, second = first.double().nan_to_num(), second.double().nan_to_num()
    return float((first - second).abs().max() / (1e-6 + second.abs().max())) if first.numel() else 0.0


def child(name: str, script: Path, folder: Path, data: Path, result: Path, wrap: bool, verbose: bool) -> None:
    """Run one changed script, and write what came of it."""
    warnings.simplefilter("ignore")
    os.chdir(script.parent)
    if not verbose:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    install(data, script.parent / "cache")
    watch, outcome = Watch() if wrap else None, Outcome(name)
    sys.argv = [str(script), *ARGUMENTS.get(name, name.split()[1:])]
    sys.path.insert(0, str(folder))  # examples import each other
    os.environ |= {"MPLBACKEND": "agg", "TQDM_DISABLE": "1"}

    def over(*_: Any) -> None:
        raise TimeIsOver

    signal.signal(signal.SIGALRM, over)
    signal.alarm(SECONDS)
    try:
        runpy.run_path(str(script), {"rade": rade}, "__main__")
        outcome.runs = True
    except TimeIsOver:
        outcome.runs = bool(watch and watch.layers)
        outcome.note = f"cut after {SECONDS} s"
    except SystemExit as end:
        outcome.runs = not end.code
        outcome.note = "" if outcome.runs else f"ended with {end.code}"
    except BaseException as error:
        outcome.note = _told(error)
    signal.alarm(0)
    if watch is not None:
        outcome.layers, outcome.views = sorted(watch.layers), bool(watch.layers)
        try:
            outcome.equal, told = watch.equal()
        except Exception as error:
            outcome.equal, told = False, "evaluation: " + _told(error)
        outcome.note = "; ".join(part for part in (outcome.note, told) if part)
    result.write_text(json.dumps(asdict(outcome)))
    sys.stdout.flush()
    os._exit(0)  # whatever the script has left behind


def _told(error: BaseException) -> str:
    traceback.print_exc()
    sentence = re.sub(r" ?\(?/\S+\.py\)?", "", " ".join(f"{type(error).__name__}: {error}".split()))  # no paths
    return sentence if len(sentence) < 200 else sentence[:197] + "..."


# ---- all of them ---------------------------------------------------------------------------------------------------


def run(name: str, folder: Path, data: Path, wrap: bool = True, verbose: bool = False) -> Outcome:
    """Change and run one script."""
    with tempfile.TemporaryDirectory() as place:
        source = folder / name.split()[0]
        script, result = Path(place, source.name), Path(place, "result.json")
        try:
            script.write_text(changed(name, source.read_text(), wrap))
        except LookupError as missing:
            return Outcome(name, note=str(missing))
        process = multiprocessing.get_context("fork").Process(
            target=child, args=(name, script, source.parent, data, result, wrap, verbose)
        )
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            return Outcome(name, note=f"did not end within {PATIENCE} s")
        if not result.exists():
            return Outcome(name, note="its process ended without a word")
        return Outcome(**json.loads(result.read_text()))


def tried(name: str, folder: Path, data: Path, verbose: bool = False) -> Outcome:
    """One script with the line, and without it where it fails."""
    if name in WITHOUT:
        return Outcome(name, note=WITHOUT[name])
    outcome = run(name, folder, data, verbose=verbose)
    if not outcome.runs:
        plain = run(name, folder, data, wrap=False)
        if not plain.runs:
            outcome.note = f"not without the line either: {_needs(plain.note)}"
    return outcome


def _needs(note: str) -> str:
    """What a script lacks here, told shortly."""
    if "URLError" in note:
        return "needs a download"
    found = re.search(r"No module named '(\w+)'|requires '([^']+)'|Install `(\w+)`", note)
    return note if found is None else f"needs {next(filter(None, found.groups()))}"


def table(outcomes: list[Outcome]) -> str:
    """Markdown: counts, then a row for each script."""
    works, runs = sum(one.works for one in outcomes), sum(one.runs for one in outcomes)
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, PyG {torch_geometric.__version__}"
    lines = [
        "# PyG's own examples with one line added",
        "",
        "Made by `python -m benchmarks.pyg_examples EXAMPLES --data DATA --out benchmarks/pyg_examples.md`. Scripts "
        "are cut to two epochs; data are from disk (Planetoid, TU) or small random graphs of the same kind, and "
        "loaders that need pyg-lib or torch-sparse have stand-ins (`pyg_offline.py`): accuracies are none.",
        "",
        f"{date.today()}, {versions}: of {len(outcomes)} scripts {runs} run with the line added, and **{works}** of "
        "them train on views and evaluate as the plain model does. "
        f"{sum('cut after' in one.note for one in outcomes if one.works)} of these were cut after {SECONDS} s; where "
        "no convolution is trained, or TorchScript is the subject, a script was not run.",
        "",
        "| example | runs | views | evaluation equal | layers on views, or the reason |",
        "|---|---|---|---|---|",
    ]
    for one in outcomes:
        marks = ["yes" if one.runs else "no", "yes" if one.views else "no"]
        marks.append("–" if one.equal is None or not one.runs else "yes" if one.equal else "**no**")
        rest = "; ".join(part for part in (", ".join(one.layers), one.note.replace("|", "/")) if part)
        lines.append(f"| {one.name} | {' | '.join(marks)} | {rest} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder with raw files of Planetoid and TU data sets")
    parser.add_argument("--only", nargs="+", help="names of scripts, such as gcn.py hetero/han_imdb.py")
    parser.add_argument("--out", type=Path, help="file for the table")
    parser.add_argument("--verbose", action="store_true", help="show what the scripts print")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = sorted(path for folder in FOLDERS for path in (args.examples / folder).glob("*.py"))
    every = {str(path.relative_to(args.examples)) for path in found} | set(AGAIN)
    names = args.only or sorted(every, key=lambda name: ("/" in name, name))
    outcomes = []
    for name in names:
        begin = time.monotonic()
        outcomes.append(tried(name, args.examples.resolve(), args.data.resolve(), args.verbose))
        one = outcomes[-1]
        marks = "works" if one.works else f"runs={one.runs} views={one.views} equal={one.equal}"
        print(f"{name:45} {marks:10} {time.monotonic() - begin:5.1f} s  {one.note}", flush=True)
        if args.out:
            args.out.write_text(table(outcomes))
    if not args.out:
        print("\n" + table(outcomes))


if __name__ == "__main__":
    main()
