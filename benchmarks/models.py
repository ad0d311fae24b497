"""Wrap and train the models of `model_list.py` for a few steps, and say what came of it: the table of docs/models.md.

    python -m benchmarks.models            # print the table
    python -m benchmarks.models --write    # put it into docs/models.md

Nothing may be silently wrong: a model works if its training calls see different views, its losses are finite, its
rates move (or are constant), and its evaluation equals that of the plain model. A refusal must be a sentence of rade's
own, raised before or at the first training step.
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
from benchmarks.model_list import MODELS, Entry
from torch import Tensor, nn

import rade

DOCUMENT = Path(__file__).parents[1] / "docs" / "models.md"
BEGIN, END = "<!-- begin: benchmarks/models.py -->", "<!-- end -->"
STEPS = 3
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
    return Outcome(entry, KEEPS, found.sentence) if constant.kind == WORKS else found


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
    told = [_sentence(one.message) for one in said if one.category is UserWarning]
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
    if model.rule.adapts and model.rates.p == first.p:
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


def table(outcomes: list[Outcome]) -> str:
    """Markdown, a part for each group."""
    lines = []
    for group in dict.fromkeys(one.entry.group for one in outcomes):
        members = [one for one in outcomes if one.entry.group == group]
        lines += [f"## {group[0].upper()}{group[1:]}", "", "| model | told | outcome | sentence |", "|---|---|---|---|"]
        for one in members:
            said = f"`{one.entry.told}`" if one.entry.told else ""
            sentence = one.sentence.replace("|", "\\|")
            lines.append(f"| {one.entry.name} | {said} | {one.kind} | {sentence} |")
        lines.append("")
    return "\n".join(lines)


def counted(outcomes: list[Outcome]) -> str:
    """One sentence about all."""
    numbers = {kind: sum(one.kind == kind for one in outcomes) for kind in (WORKS, KEEPS, WARNED, REFUSED, WRONG)}
    words = [f"{count} {kind.strip('*')}" for kind, count in numbers.items() if count or kind == WRONG]
    return f"Of {len(outcomes)} models: {'; '.join(words)}."


def document(outcomes: list[Outcome], before: str) -> str:
    """The document with a new table between its marks."""
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{counted(outcomes)}\n\n{table(outcomes)}\n{END}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Try the models of benchmarks/model_list.py with rade.RADE.")
    parser.add_argument("--write", action="store_true", help="put the table into docs/models.md")
    asked = parser.parse_args()
    outcomes = [outcome(entry) for entry in MODELS]
    if asked.write:
        DOCUMENT.write_text(document(outcomes, DOCUMENT.read_text("utf-8")), "utf-8")
    print(counted(outcomes) if asked.write else f"{counted(outcomes)}\n\n{table(outcomes)}")


if __name__ == "__main__":
    main()
