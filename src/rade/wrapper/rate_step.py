"""One step of the rates, seen from the model: what a rule may ask for, each thing computed at most once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import Module, Parameter

from rade.control.evidence import Evidence, Logits
from rade.control.gradients import clean_gradient_norm, gradient_norm
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.regulariser import CleanPass, Regulariser, regulariser
from rade.control.rules import Rule
from rade.graph.adjacency import Adjacency
from rade.graph.nodes import nodes_of, picked
from rade.memory import Memo, remembered
from rade.nn.base import corrected
from rade.view.law import Law
from rade.view.view import MeanView
from rade.wrapper.clean import Few, clean_logits, clean_pass
from rade.wrapper.latest import Latest


@dataclass(frozen=True, eq=False)
class RateStep:
    """A training step that has just been: the model, how to run it, and the rows that the loss was taken over."""

    model: Module
    run: Callable[[Adjacency], Tensor]
    law: Law
    readout: Readout
    labelled: Labelled
    latest: Latest | None
    nodes: Tensor | None  # of the logits' rows, where the call asks for some of them
    asking: Callable[[Tensor], Callable[[Adjacency], Tensor]]  # how to run it for other nodes
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    def evidence(self, rule: Rule) -> Evidence:
        """What the rule may look at."""
        training = rule.data_gradient == "training"
        return Evidence(self._regulariser, self._left_norm if training else self._clean_norm, self._logits)

    @property
    def clean_logits(self) -> Tensor:
        """The logits on the input graph, from whichever pass has made them already."""
        if "_clean" in self.memo.kept:
            return self._clean.logits.detach()
        return self._plain

    @property
    def _parameters(self) -> list[Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @remembered
    def _clean(self) -> CleanPass:
        return clean_pass(self.model, self.run, self.law.graph, self.readout, self.nodes, self._few)

    @property
    def _few(self) -> Few | None:
        """The labelled rows, if gradients through what these hear are cheaper than through everybody."""
        nodes, rows = self.nodes, self.labelled.rows
        if nodes is None or rows is None or any(conv.hears_everybody for conv in corrected(self.model)):
            return None
        labelled, graph = picked(nodes, rows), self.law.graph
        few = graph.neighborhood(nodes_of(labelled, graph.num_nodes)).few
        return Few(self.asking(labelled), rows) if few else None

    @remembered
    def _plain(self) -> Tensor:
        return clean_logits(self.model, self.run, self.law.graph)

    def _regulariser(self) -> Regulariser:
        if self.latest is not None:
            self.latest.check(self.readout)
        return regulariser(self._clean, self.readout, self.labelled, self.law, self._parameters)

    def _left_norm(self) -> Tensor:
        return gradient_norm(self._parameters)

    def _clean_norm(self) -> Tensor:
        return clean_gradient_norm(self._clean.logits, self.labelled, self._parameters)

    def _logits(self) -> Logits:
        """The labelled rows with and without noise."""
        if self.latest is None:
            raise RuntimeError("this rule compares with the logits of the last training call, but there was none")
        self.latest.check(self.readout)
        with_additions = self.law.variant.keeps_additions
        mean = clean_logits(self.model, self.run, MeanView(self.law)) if with_additions else self.clean_logits
        scores = self.readout.scores(mean, self.law.graph, self.nodes)
        rows = self.labelled.chosen(scores.shape[0], scores.device)
        training = self.latest.rows(self.law.graph, rows if self.nodes is None else self.nodes[rows])
        return Logits(self.readout.contrasts(training), self.readout.contrasts(scores[rows]))
