"""What a rule reads of a training step, found in as few passes of the model as that takes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import Parameter

from rade.control.evidence import Evidence, Logits
from rade.control.gradients import clean_gradient_norm, gradient_norm
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.regulariser import CleanPass, Regulariser, regulariser
from rade.control.rules import Rule
from rade.view.law import Law
from rade.view.view import MeanView
from rade.wrapper.clean import clean_pass
from rade.wrapper.latest import Latest
from rade.wrapper.running import Running


@dataclass(frozen=True, eq=False)
class RateStep:
    """A training step that has just been: how to repeat its call, and the rows that the loss was taken over."""

    running: Running
    law: Law
    readout: Readout
    labelled: Labelled
    latest: Latest | None

    def look(self, rule: Rule) -> tuple[Evidence, Tensor]:
        """What the rule reads, and the logits on the input graph."""
        if self.latest is not None and set(rule.reads) & {"regulariser", "logits"}:
            self.latest.check(self.readout)
        clean = self._clean if "regulariser" in rule.reads or self._takes_clean_gradient(rule) else None
        plain = self.running.prediction(self.law.graph) if clean is None else clean.logits.detach()
        seen = Evidence(
            self._regulariser(clean) if clean is not None and "regulariser" in rule.reads else None,
            self._data_norm(rule, clean) if "data_norm" in rule.reads else None,
            self._logits(plain) if "logits" in rule.reads else None,
        )
        return seen, plain

    @property
    def _parameters(self) -> list[Parameter]:
        return [parameter for parameter in self.running.model.parameters() if parameter.requires_grad]

    @property
    def _clean(self) -> CleanPass:
        return clean_pass(self.running, self.law.graph, self.readout, self.labelled.rows)

    def _takes_clean_gradient(self, rule: Rule) -> bool:
        return "data_norm" in rule.reads and rule.data_gradient == "clean"

    def _regulariser(self, clean: CleanPass) -> Regulariser:
        return regulariser(clean, self.readout, self.labelled, self.law, self._parameters)

    def _data_norm(self, rule: Rule, clean: CleanPass | None) -> Tensor:
        if clean is None or rule.data_gradient == "training":
            return gradient_norm(self._parameters)
        return clean_gradient_norm(clean.logits, self.labelled, self._parameters)

    def _logits(self, plain: Tensor) -> Logits:
        """The labelled rows with and without noise."""
        if self.latest is None:
            raise RuntimeError("this rule compares with the logits of the last training call, but there was none")
        nodes, with_additions = self.running.call.rows, self.law.variant.keeps_additions
        mean = self.running.prediction(MeanView(self.law)) if with_additions else plain
        scores = self.readout.scores(mean, self.law.graph, nodes)
        rows = self.labelled.chosen(scores.shape[0], scores.device)
        training = self.latest.rows(self.law.graph, rows if nodes is None else nodes[rows])
        return Logits(self.readout.contrasts(training), self.readout.contrasts(scores[rows]))
