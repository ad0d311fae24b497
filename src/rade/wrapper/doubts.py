"""What looks wrong in a training call although nothing fails: each is said once for a model."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from rade.control.readout import Readout
from rade.control.rules import Rule
from rade.errors import outside
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.nn.trace import Trace
from rade.view.rates import Rates
from rade.view.rows import Restricted
from rade.view.sampling import FreshViews
from rade.view.view import View
from rade.wrapper.call import Call
from rade.wrapper.latest import Latest

BLOCKS, SMALLEST = 3, 3  # fewer blocks, or smaller ones, are common in one graph
UNFOLLOWED = 50  # more than anybody accumulates gradients over
INSIDE = 10  # rate steps
FIRST = 5  # rate steps: later on the gradients of a loss may be all rounding
MUCH = 10.0  # times what was asked for
LONG_EPOCH = 5_000  # batches; rates may adapt once in an epoch
FEW = 0.1  # share of labelled rows under which additions were seen to hurt long training (docs/rates.md)


class Doubts:
    """What has been said of a model so far; copies and pickles start afresh."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._unfollowed = 0  # training calls since the last rate step
        self._inside = 0  # rate steps with all outputs between 0 and 1
        self._steps = 0  # rate steps

    def batch(self, call: Call, graph: Graph) -> None:
        """A batch of graphs without its batch vector: edges would be added between different graphs."""
        given = call.batch is not None or call.ptr is not None or call.entry.batch == ""
        if not given and "batch" not in self._said and looks_like_a_batch(graph):
            self._say(
                "batch",
                f"edge_index looks like a batch: {blocks(graph).numel()} blocks of nodes with no "
                "edge between them, but no "
                "batch vector came, so edges are added between them; pass batch, or name it, "
                "RADE(model, batch_arg=...), or pass rade.Graph.from_edge_index(edge_index, batch=batch) as the graph, "
                "or batch_arg='' if it is one graph",
            )

    def additions(self, graph: Graph, rates: Rates, rho: float) -> None:
        """Another density than that which q follows from: much more is added here than ρ says."""
        added, asked = float(rates.q) * graph.num_nonedges, rho * graph.num_edges
        if added > MUCH * max(asked, 1.0):
            self._say(
                "additions",
                f"q = {float(rates.q):.3g} follows from the density that was given, or from that of the first training "
                f"graph, and adds {added:,.0f} edges to the {graph.num_edges:,} of this one, where rho = {rho:g} "
                f"asks for {asked:,.0f}; give the density of your graphs, RADE(model, density=...)",
            )

    def views(self, trace: Trace, adjacency: Adjacency) -> None:
        """Convolutions that aggregate over something else than the view that they were meant to get."""
        others = [path for path, _, inputs in trace.calls if not _over(inputs.get("edge_index"), adjacency)]
        if len(others) == len(trace.calls):
            self._say(
                "views",
                "no convolution got the random view: the model reads a graph of its own, so "
                "training is as without RADE; "
                "let forward hand its graph argument to the convolutions",
            )
        elif others:
            self._say("views", f"convolutions on a graph of their own, without random views: {', '.join(others)}")

    @property
    def late(self) -> bool:
        """Whether a rate step went well already: what one refuses from then on must not stop the training."""
        return self._steps > 0

    def stepped(self) -> None:
        """A rate step went well."""
        self._steps += 1

    def left_out(self, refusal: Exception) -> None:
        """A rate step that could not be made."""
        self._say("left out", f"a rate step is left out, and the rates stay as they are: {refusal}")

    def features(self, refusal: Exception) -> None:
        """Features that the first call would have refused."""
        self._say("features", f"{refusal}; the call goes on all the same")

    def training(self, latest: Latest, rates: Rates, readout: Readout, rule: Rule) -> None:
        """What a training call that is followed by a rate step tells of labels, outputs and loss."""
        if self._steps < FIRST and {"regulariser", "logits"} & set(rule.reads) and not latest.is_of_classes(readout):
            self._say(
                "classes",
                "the loss does not treat the model's outputs as class logits (its gradient changes under a common "
                "shift), and the rates adapt as if it did: say what they are, "
                "readout=rade.Readout(task='multiclass'|'binary'|'multilabel'|'regression') or Readout(loss=...), or "
                "keep the rates, rule=rade.Constant()",
            )
        if latest.reached is not None:
            self._labels(latest.reached, rates)
        if latest.logits is not None:
            self._outputs(latest.logits, readout)

    def again(self, latest: Latest | None, graph: Graph, rates: Rates) -> None:
        """What the training call before this one tells of labels, looked at once; batches of other nodes each time
        do not tell how many there are.
        """
        if "looked" not in self._said and latest is not None and latest.reached is not None and latest.graph is graph:
            self._said.add("looked")
            self._labels(latest.reached, rates)

    def follows(self, latest: Latest | None, graph: Graph, rule: Rule) -> None:
        """Rates that should adapt, and many training calls without a rate step: on batches a whole epoch of them."""
        if not rule.adapts or latest is None or latest.reached is None:
            self._unfollowed = 0
            return
        self._unfollowed += 1
        if self._unfollowed == (UNFOLLOWED if latest.graph is graph else LONG_EPOCH):
            self._say(
                "follow",
                f"{self._unfollowed:,} training calls and no rate step: {type(rule).__name__} moves the rates in "
                "model.adapt() after every step, or by itself after model.follow(optimizer)",
            )

    def _labels(self, reached: Tensor, rates: Rates) -> None:
        """Few labelled rows and additions: accuracy was seen to fall when training goes on."""
        if few := few_labels(int(reached.sum()), len(reached), float(rates.q)):
            self._say("labels", few)

    def _outputs(self, scores: Tensor, readout: Readout) -> None:
        """Probabilities where logits are wanted: they stay between 0 and 1, where untrained logits may all lie."""
        if "outputs" in self._said or readout.task not in ("binary", "multilabel") or scores.numel() < 32:
            return
        if not bool(((scores >= 0) & (scores <= 1)).all()):
            self._said.add("outputs")  # they are logits: nothing to look at any more
            return
        self._inside += 1
        if self._inside == INSIDE:
            self._say(
                "outputs",
                "all outputs lie between 0 and 1, as after a sigmoid; rate control takes them for "
                "logits: return logits "
                "(binary_cross_entropy_with_logits), or keep the rates, rule=rade.Constant()",
            )

    def plain_method(self, name: str) -> None:
        """A method of the wrapped model that takes the graph, called without views."""
        self._say(
            f"method {name}",
            f"{name}() takes the graph but runs without random views; wrap it as well, RADE(model, methods=[{name!r}])",
        )

    def _say(self, what: str, sentence: str) -> None:
        if what not in self._said:
            self._said.add(what)
            warnings.warn(sentence, stacklevel=outside())

    def __reduce__(self) -> tuple[type[Doubts], tuple[()]]:
        return type(self), ()


def few_labels(labelled: int, rows: int, q: float) -> str:
    """The sentence for few labelled rows and additions, empty where there is no doubt."""
    if not 0 < labelled < FEW * rows or rows < 100 or q == 0.0:
        return ""
    return (
        f"only {labelled / rows:.1%} of the rows are labelled and edges are added: over long training added edges were "
        "seen to cost up to 17 points with few labels; stop at the best validation epoch, or train without RADE "
        "(drops alone, rule=rade.Constant(0.5, 0), cost less, but not nothing)"
    )


def _over(seen: object, adjacency: Adjacency) -> bool:
    """Whether a layer got the adjacency, some rows of it, or the view that was drawn for it."""
    whole = seen.whole if isinstance(seen, Restricted) else seen
    drawn = isinstance(whole, View) and isinstance(adjacency, FreshViews) and whole.law.memo is adjacency.law.memo
    return whole is adjacency or drawn


def blocks(graph: Graph) -> Tensor:
    """Sizes of the runs of consecutive nodes between which no edge passes, single nodes left out."""
    ends = graph.edge_index[:, graph.entries]
    low, high = ends.min(0).values, ends.max(0).values
    change = torch.zeros(graph.num_nodes + 1, dtype=torch.long, device=graph.device)
    ones = torch.ones_like(low)
    crossing = change.index_add(0, low, ones).index_add(0, high, -ones).cumsum(0)[:-1]  # edges over i | i + 1
    last = (crossing == 0).nonzero().squeeze(1)
    sizes = torch.diff(last, prepend=last.new_full((1,), -1))
    return sizes[sizes > 1]


def looks_like_a_batch(graph: Graph) -> bool:
    """Whether one graph is made of several blocks in a row, none of which is most of it; remembered with the graph."""
    return graph.once("looks like a batch", lambda: _in_blocks(graph))


def _in_blocks(graph: Graph) -> bool:
    if graph.num_graphs > 1 or graph.num_nodes < BLOCKS * SMALLEST:
        return False
    sizes = blocks(graph)
    large = sizes[sizes >= SMALLEST]
    # Nodes of one graph stand in any order: that several large parts of it follow each other is no accident.
    return (
        large.numel() >= BLOCKS
        and 2 * int(large.max()) <= graph.num_nodes
        and int(large.sum()) * 5 >= 4 * graph.num_nodes
    )
