"""What a regulariser is to the trainer: a value (`Method`) that turns a backbone into a `Learner`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from rade.graph.graph import Graph
from rade.nn.backbones import Backbone
from rade.view.randomness import packed, unpack
from rade.view.view import Rates

Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a step's loss was taken over: rows of the logits, which of their labels are known, and the loss itself.

    weight: the step's share among processes, by which the loss was multiplied.
    """

    rows: Tensor  # [k]
    known: Tensor | None
    loss: Loss
    weight: float = 1.0


@dataclass(frozen=True)
class Context:
    """What a method may ask about its task: the randomness, the data's edge density, the loss and the pooling."""

    generator: torch.Generator
    density: float
    task: str
    pool: str


class Learner(nn.Module):
    """A backbone under training-time perturbation: perturbed in training, clean in evaluation.

    The state of the generator is part of `state_dict`, so a restored learner draws what the saved one would have drawn.
    """

    def __init__(self, net: nn.Module, generator: torch.Generator) -> None:
        super().__init__()
        self.net = net
        self.generator = generator

    def forward(self, x: Tensor, graph: Graph, batch: Tensor | None = None) -> Tensor:
        """Logits of the nodes (or, with a pooling backbone, of the graphs)."""
        inputs, adjacency = self.perturb(x, graph) if self.training else (x, graph)
        logits: Tensor = self.net(inputs, adjacency, batch=batch)
        return logits

    def perturb(self, x: Tensor, graph: Graph) -> tuple[Tensor, object]:
        """The features and the adjacency of one training step."""
        return x, graph

    def adapts_after(self, last: bool) -> bool:
        """Whether to call `adapt` after a step, the `last` of its epoch or another."""
        return True

    def adapt(self, x: Tensor, graph: Graph, batch: Tensor | None, labelled: Labelled) -> Tensor | None:
        """Adapt the method's own rates after a step; return the evaluation logits if that produced them anyway."""
        return None

    @property
    def rates(self) -> Rates:
        """The present probabilities of dropping an edge and of adding a non-edge."""
        return Rates(0.0, 0.0)

    def get_extra_state(self) -> dict[str, Tensor]:
        """The generator's state."""
        return packed(self.generator)

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Restore the generator."""
        unpack(self.generator, state)


class Method(Protocol):
    """A regulariser as a value; its fields are its settings."""

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The learner that trains `net` with this method."""
        ...


def check_rate(rate: float) -> None:
    """Refuse a drop rate outside [0, 1): at 1 nothing is left to scale up."""
    if not 0 <= rate < 1:
        raise ValueError(f"the drop rate must lie in [0, 1), got {rate}")
