"""Wrap PyG's convolutions and the models of `model_list.py`, and say what came of it: the tables of docs/layers.md.

    python -m benchmarks.models            # print the table
    python -m benchmarks.models --write    # put it into docs/layers.md

Nothing may be silently wrong: a model works if its training calls see different views, its losses are finite, its
rates move (or are constant), and its evaluation equals that of the plain model. A refusal must be a sentence of rade's
own, raised before or at the first training step. A layer is unbiased if the mean over views is its output on the graph.
"""

from __future__ import annotations

import argparse
import copy
import re
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.layer_list import EVERY, LAYERS, OTHERS, Layer
from benchmarks.model_list import MODELS, Entry
from torch import Tensor, nn

import rade
from rade.nn.base import convolutions

DOCUMENT = Path(__file__).parents[1] / "docs" / "layers.md"
BEGIN, END = "<!-- begin: benchmarks/models.py -->", "<!-- end -->"
STEPS = 3
VIEWS, FAR = 100, 5.0  # samples of a layer's output, and standard errors: a false alarm once in 100 runs of all layers
WORKS, KEEPS, WARNED, REFUSED, WRONG = "works", "works, rates do not adapt", "warns", "refused", "**wrong**"
# Lists of layers, which grow.
SUPPORTED = re.compile(r" \(supported: [^)]*\)|; supported layers: [\w, ]*")


@dataclass(frozen=True)
class Outcome:
    """What came of one model."""

    entry: Entry
    kind: str
    sentence: str = ""


def outcome(entry: Entry) -> Outcome:
    """As told, then with constant rates if rates that adapt are refused."""
    found = _tried(entry, entry.options)
    if found.kind != REFUSED or "rule" in entry.options:
        return found
    constant = _tried(entry, entry.options | {"rule": rade.Constant(0.2, 0.1)})
    if constant.kind == WORKS:
        return Outcome(entry, KEEPS, found.sentence)
    return constant if constant.kind == WARNED else found


def _tried(entry: Entry, options: dict[str, Any]) -> Outcome:
    """Train for a few steps; which of our sentences came, or whose error."""
    torch.manual_seed(0)
    net = entry.build()
    plain = copy.deepcopy(net)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = rade.RADE(net, generator=torch.Generator().manual_seed(0), **{"rule": rade.GradNorm(), **options})
            trouble = _train(entry, model) or _compare(entry, model, plain)
        except Exception as error:
            return _refusal(entry, error)
    ours = [one for one in said if one.category is UserWarning and "Sparse invariant" not in str(one.message)]
    told = [_sentence(one.message) for one in ours]
    if trouble:
        return Outcome(entry, WARNED if told else WRONG, told[0] if told else trouble)
    return Outcome(entry, WARNED if told else WORKS, told[0] if told else "")


def _train(entry: Entry, model: rade.RADE) -> str:
    """A few steps of a loop that only wraps; what is wrong with them."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.follow(optimizer)
    first = model.rates
    if torch.equal(_loss(entry, model), _loss(entry, model)):
        return "two training calls are equal: nobody used the views"
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = _loss(entry, model)
        loss.backward()
        optimizer.step()
        if not bool(torch.isfinite(loss)):
            return "the loss is not finite"
    if model.rade.rule.adapts and model.rates.p == first.p:
        return "the rates do not move"
    return ""


def _loss(entry: Entry, model: rade.RADE) -> Tensor:
    """With the model's own randomness held: what is left differs by its view alone."""
    torch.manual_seed(1)
    return entry.loss(entry.call(model.train()))


@torch.no_grad()
def _compare(entry: Entry, model: rade.RADE, plain: nn.Module) -> str:
    """Evaluation against the plain model with the trained parameters."""
    plain.load_state_dict(model.wrapped.state_dict())
    outputs = []
    for one in (model.eval(), plain.eval()):
        torch.manual_seed(2)
        found = entry.call(one)
        outputs.append(found[0] if isinstance(found, tuple) else found)
    return "" if torch.allclose(*outputs, rtol=1e-4, atol=1e-5) else "evaluation differs from the plain model's"


def _refusal(entry: Entry, error: Exception) -> Outcome:
    """A sentence of ours, or an error from somewhere else."""
    ours = "/rade/" in traceback.extract_tb(error.__traceback__)[-1].filename.replace("\\", "/")
    text = _sentence(error)
    return Outcome(entry, REFUSED, text) if ours else Outcome(entry, WRONG, f"{type(error).__name__}: {text}")


def _sentence(said: object) -> str:
    return SUPPORTED.sub("", " ".join(str(said).split()))


@dataclass(frozen=True)
class LayerOutcome:
    """How a convolution is corrected, and whether its output keeps its expectation."""

    name: str
    how: str
    unbiased: bool | None = None  # None: not asked, since what follows its sum is not linear
    remark: str = ""


def layer_outcome(name: str, layer: Layer) -> LayerOutcome:
    """One convolution on sampled views against itself on the graph."""
    torch.manual_seed(0)
    net = layer.build()
    with torch.no_grad():
        plain = copy.deepcopy(net).eval()(*layer.args)
        model = rade.RADE(net, rule=rade.Constant(0.3, 0.5), generator=torch.Generator().manual_seed(0))
        paired = {bool(conv.against_moments()) for conv in convolutions(model.wrapped).values()}
        (how,) = {"pairs of views" if one else "moments" for one in paired}
        same = torch.allclose(_first(model.eval()(*layer.args)), _first(plain), rtol=1e-4, atol=1e-5)
        seen = torch.stack([_first(model.train()(*layer.args)).double() for _ in range(VIEWS)])
    spread = seen.std(0)
    error = (seen.mean(0) - _first(plain)).abs() / (spread / VIEWS**0.5).clamp(min=1e-7)
    if not same or not bool((spread > 0).any()):
        return LayerOutcome(name, how, False, "evaluation differs from the plain layer's" if not same else "no views")
    if layer.nonlinear:
        return LayerOutcome(name, how, None, f"its sums are; {layer.nonlinear} follows them")
    return LayerOutcome(name, how, bool(error.max() < FAR))


def _first(output: Any) -> Tensor:
    """The output of a layer, or of the one kind of nodes."""
    return next(iter(output.values())) if isinstance(output, dict) else output


def layer_table(outcomes: list[LayerOutcome]) -> str:
    """Markdown, every convolution of PyG."""
    lines = ["## PyG's convolutions", "", "| layer | corrected by | unbiased | remark |", "|---|---|---|---|"]
    words = {True: "yes", False: WRONG, None: ""}
    rows = {one.name: f"| {one.name} | {one.how} | {words[one.unbiased]} | {one.remark} |" for one in outcomes}
    rows |= {name: f"| {name} |  |  | {reason} |" for name, reason in OTHERS.items()}
    return "\n".join([*lines, *(rows[name] for name in EVERY if name in rows), ""])


def table(outcomes: list[Outcome]) -> str:
    """Markdown, a part for each group."""
    lines = []
    for group in dict.fromkeys(one.entry.group for one in outcomes):
        members = [one for one in outcomes if one.entry.group == group]
        lines += [f"## {group[0].upper()}{group[1:]}", ""]
        lines += ["| model | options | outcome | sentence |", "|---|---|---|---|"]
        for one in members:
            said = f"`{one.entry.told}`" if one.entry.told else ""
            sentence = one.sentence.replace("|", "\\|")
            lines.append(f"| {one.entry.name} | {said} | {one.kind} | {sentence} |")
        lines.append("")
    return "\n".join(lines)


def counted(outcomes: list[Outcome], layers: list[LayerOutcome]) -> str:
    """One sentence about all layers, and one about all models."""
    by = {how: sum(one.how == how for one in layers) for how in ("moments", "pairs of views")}
    wrong = sum(one.unbiased is False for one in layers)
    ways = ", ".join(f"{count} by {how}" for how, count in by.items())
    numbers = {kind: sum(one.kind == kind for one in outcomes) for kind in (WORKS, KEEPS, WARNED, REFUSED, WRONG)}
    words = [f"{count} {kind.strip('*')}" for kind, count in numbers.items() if count or kind == WRONG]
    first = f"Of PyG's {len(EVERY)} convolutions {len(layers)} were tried: {ways}; {wrong} wrong."
    return f"{first}\nOf {len(outcomes)} models: {'; '.join(words)}."


def document(outcomes: list[Outcome], layers: list[LayerOutcome], before: str) -> str:
    """The document with new tables between its marks."""
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    found = f"{counted(outcomes, layers)}\n\n{layer_table(layers)}\n{table(outcomes)}"
    return f"{head}{BEGIN}\n{found}\n{END}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Try PyG's convolutions and the models of model_list.py with rade.")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/layers.md")
    asked = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = [layer_outcome(name, layer) for name, layer in LAYERS.items()]
    outcomes = [outcome(entry) for entry in MODELS]
    text = document(outcomes, layers, DOCUMENT.read_text("utf-8"))
    if asked.write:
        DOCUMENT.write_text(text, "utf-8")
    print(counted(outcomes, layers) if asked.write else text)


if __name__ == "__main__":
    main()
