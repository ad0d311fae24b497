"""What looks wrong in a training although nothing fails: each is said once for a model."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
from torch import Tensor

from rade.errors import outside
from rade.graph.graph import Graph
from rade.nn.context import Pass
from rade.rates.rules import Rule
from rade.rates.state import RateState

BLOCKS, SMALLEST = 3, 3  # fewer blocks, or smaller ones, are common in one graph
UNFOLLOWED = 50  # more than anybody accumulates gradients over
MUCH = 10.0  # times what was asked for
LONG_EPOCH = 5_000  # batches; rates may adapt once in an epoch
FEW = 0.1  # share of labelled rows under which additions were seen to hurt long training (docs/rates.md)


SENTENCES = {
    # Edges would be added between different graphs.
    "batch": "edge_index looks like a batch: {count} blocks of nodes with no edge between them, but no batch vector "
    "came, so edges are added between them; pass it as an argument named batch, or as that of a Data object",
    # Another density than that which q follows from: much more is added here than ρ says.
    "additions": "q = {q:.3g} follows from the density that was given, or from that of the first training graph, and "
    "adds {added:,.0f} edges to the {edges:,} of this one, where rho = {rho:g} asks for {asked:,.0f}; give the density "
    "of your graphs, RADE(model, density=...)",
    # A training call in which no layer aggregated.
    "views": "no graph convolution was called in training mode, so training is as without RADE",
    # Layers whose edges came in a form that has no views.
    "plain": "{layers} aggregated as without RADE: edges came as a sparse matrix (adj_t) whose entries the layer does "
    "not take as edge_weight, or which is no coalesced torch matrix; or, for RADE-OFS, where it has no moments: more "
    "than once, with self-loops or weights, or between two kinds of nodes; there are views of an edge_index [2, E] of "
    "int64: pass such a one",
    # Layers on nodes that no batch vector is known of, those that a pooling layer has left say.
    "mixed": "{layers} got nodes that no batch vector of this call belongs to, as after pooling, or edges between the "
    "graphs of the one that fits, so edges are added between different graphs; pass "
    "rade.Graph.from_edge_index(edge_index, num_nodes, batch) in the place of that edge_index, or add no edges, "
    "rule=rade.Constant(p, 0)",
    # Layers that were wrapped once more, alone or in another model.
    "lost": "{layers} of this model follow another rade.RADE model, which was built of them later: they have its views "
    "and rates here, too, and know no batch vector; wrap one model that holds all parts, or give each its own layers",
    # Rates that should adapt, and many training calls without a rate step: on batches a whole epoch of them.
    "follow": "{calls:,} training calls and no rate step: {rule} moves the rates in model.adapt() after every step, or "
    "by itself after model.follow(optimizer)",
    # A rate step that could not be made.
    "left out": "a rate step is left out, and the rates stay as they are: {refusal}",
    # What the readout thinks of logits and gradients.
    "classes": "{doubt}",
    # Few labelled rows and additions: accuracy was seen to fall when training goes on.
    "labels": "{doubt}",
}


class Warnings:
    """What has been said of a model so far."""

    def __init__(self, state: RateState) -> None:
        self.state = state
        self._said: set[str] = set()
        self._met: weakref.ref[Graph] | None = None  # the graph that was looked at
        self.looked = False  # at which rows are labelled
        self.unfollowed = 0  # training calls since the last rate step
        self.steps = 0  # rate steps that went well: what a later one refuses must not stop the training

    def say(self, what: str, **values: Any) -> None:
        """Warn once, by one of ``SENTENCES``."""
        sentence = SENTENCES[what].format(**values)
        if what not in self._said:
            self._said.add(what)
            warnings.warn(sentence, stacklevel=outside())

    def met(self, present: Pass, graph: Graph) -> None:
        """Look at the first graph of a training pass, unless it was that of the last one."""
        if self._met is not None and self._met() is graph:
            return
        self._met = weakref.ref(graph)
        count = 0 if present.batch is not None or "batch" in self._said else blocks(graph)
        if count:
            self.say("batch", count=count)
        q, rho = float(present.distributions[graph].rates.q), self.state.rho_now
        added, asked = q * graph.num_nonedges, rho * graph.num_edges
        if added > MUCH * max(asked, 1.0):
            self.say("additions", q=q, added=added, edges=graph.num_edges, rho=rho, asked=asked)

    def follows(self, same_graph: bool, rule: Rule) -> None:
        """Count a training call of rates that should adapt."""
        self.unfollowed += 1
        if self.unfollowed == (UNFOLLOWED if same_graph else LONG_EPOCH):
            self.say("follow", calls=self.unfollowed, rule=type(rule).__name__)

    def labels(self, reached: Tensor) -> None:
        """Look at which rows a loss has reached."""
        self.looked = True
        if doubt := few_labels(int(reached.sum()), len(reached), float(self.state.rates.q)):
            self.say("labels", doubt=doubt)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_met": None}


def few_labels(labelled: int, rows: int, q: float) -> str:
    """The sentence for few labelled rows and additions, empty where there is no doubt."""
    if not 0 < labelled < FEW * rows or rows < 100 or q == 0.0:
        return ""
    return (
        f"only {labelled / rows:.1%} of the rows are labelled and edges are added: over long training added edges were "
        "seen to cost up to 17 points with few labels; stop at the best validation epoch, or train without RADE "
        "(drops alone, rule=rade.Constant(0.5, 0), cost less, but not nothing)"
    )


def blocks(graph: Graph) -> int:
    """How many large blocks in a row one graph is made of, with no edge between them and none of them most of it.

    0 where it does not look like a batch. Nodes of one graph come in any order: that several large parts of it follow
    each other is no accident.
    """
    nodes = graph.num_nodes
    if graph.num_graphs > 1 or nodes < BLOCKS * SMALLEST:
        return 0
    ends = graph.edge_index[:, graph.entries]
    low, high = ends.min(0).values, ends.max(0).values
    ones, change = torch.ones_like(low), torch.zeros(nodes + 1, dtype=torch.long, device=graph.device)
    crossing = change.index_add(0, low, ones).index_add(0, high, -ones).cumsum(0)[:-1]  # edges over i | i + 1
    last = (crossing == 0).nonzero().squeeze(1)
    sizes = torch.diff(last, prepend=last.new_full((1,), -1))
    sizes = sizes[sizes >= SMALLEST]
    alike = sizes.numel() >= BLOCKS and 2 * int(sizes.max()) <= nodes and 5 * int(sizes.sum()) >= 4 * nodes
    return sizes.numel() if alike else 0
