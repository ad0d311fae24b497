"""The passes of the model that a rate rule needs, in as few as that takes."""

from __future__ import annotations

from torch import Tensor

from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.rules import Rule
from rade.control.training import Noisy, TrainingStep
from rade.view.law import Law
from rade.view.view import MeanView
from rade.wrapper.clean import clean_pass
from rade.wrapper.latest import Latest
from rade.wrapper.running import Running


def look_back(
    running: Running, law: Law, readout: Readout, labelled: Labelled, latest: Latest | None, rule: Rule
) -> tuple[TrainingStep, Tensor]:
    """The training step that has just been, by repeating its call; and the logits on the input graph."""
    by_regulariser, by_logits = "regulariser" in rule.reads, "logits" in rule.reads
    trained, parameters, clean = _trained(latest, law) if by_logits else None, running.parameters, None
    if by_regulariser or ("data_norm" in rule.reads and rule.data_gradient == "clean"):
        clean = clean_pass(running, law.graph, readout, labelled.rows)
    plain = running.prediction(law.graph) if clean is None else clean.logits.detach()
    noisy = None
    if trained is not None:
        mean = running.prediction(MeanView(law)) if law.variant.keeps_additions else plain
        noisy = Noisy(*trained, mean, running.call.rows)
    return TrainingStep(law, readout, labelled, parameters, clean, noisy), plain


def _trained(latest: Latest | None, law: Law) -> tuple[Tensor, Tensor | None]:
    """The logits of the last training call, and the nodes that it asked for."""
    if latest is None:
        raise RuntimeError("this rule compares with the logits of the last training call, but there was none")
    if latest.logits is None or latest.graph is not law.graph:
        raise RuntimeError(
            "this rule compares with the logits of the last training call: call adapt() with the arguments of that "
            "call, on a model that returns its logits"
        )
    return latest.logits, latest.call.rows
