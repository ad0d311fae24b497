"""What a method is to the trainer: a value (`Method`) that turns a backbone into a `Learner`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from rade.control.labelled import Labelled
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.nn.backbones import Backbone
from rade.nn.rows import Wanted
from rade.view.randomness import packed, unpack
from rade.view.rates import Rates
from rade.view.trust import Trust

Trusting = Callable[[str, Rates], Trust]  # by the name of a similarity and the rates of noise


def alike(similarity: str, noise: Rates) -> Trust:
    """All edges trusted alike, where no graph is at hand whose edges could be told apart."""
    return Trust()


@dataclass(frozen=True)
class Context:
    """What a method may ask about its task: the randomness, the data's edge density, the loss and the pooling.

    trust: in the single edges of the data's graph, by the similarity of their ends.
    """

    generator: torch.Generator
    density: float
    task: str
    pool: str
    trust: Trusting = alike


class Learner(nn.Module):
    """A backbone under training-time perturbation: perturbed in training, clean in evaluation.

    The state of the generator is part of `state_dict`, so a restored learner draws what the saved one would have drawn.
    """

    def __init__(self, net: nn.Module, generator: torch.Generator) -> None:
        super().__init__()
        self.net = net
        self.generator = generator

    def forward(self, x: Tensor, graph: Graph, batch: Tensor | None = None, wanted: Wanted | None = None) -> Tensor:
        """Logits of the nodes, or of the rows ``wanted`` (or, with a pooling backbone, of the graphs)."""
        inputs, adjacency = self.perturb(x, graph) if self.training else (x, graph)
        logits: Tensor = self.net(inputs, adjacency, batch=batch, wanted=wanted)
        return logits

    def perturb(self, x: Tensor, graph: Graph) -> tuple[Tensor, Adjacency]:
        """The features and the adjacency of one training step."""
        return x, graph

    def at(self, factor: float) -> Learner:
        """The learner for graphs on which each pair of nodes is joined at inference ``factor`` times as often."""
        return self

    def adapts_after(self, last: bool) -> bool:
        """Whether to call `adapt` after a step, the `last` of its epoch or another."""
        return False

    def adapt(
        self, x: Tensor, graph: Graph, batch: Tensor | None, wanted: Wanted | None, labelled: Labelled
    ) -> Tensor | None:
        """Adapt the method's own rates after a step; return the evaluation logits if that produced them anyway."""
        return None

    def variance_shares(self, x: Tensor, graph: Graph, batch: Tensor | None) -> dict[str, float]:
        """Which share of the logits' variance drops and additions make, where views are random; else nothing."""
        return {}

    @property
    def rates(self) -> Rates:
        """The present probabilities of dropping an edge and of adding a non-edge."""
        return Rates(0.0, 0.0)

    def get_extra_state(self) -> Tensor:
        return packed(self.generator)

    def set_extra_state(self, state: Tensor | dict[str, Tensor]) -> None:
        unpack(self.generator, state)


@dataclass(frozen=True)
class Method(ABC):
    """A method as a value; its fields are its settings."""

    @abstractmethod
    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The learner that trains `net` with this method."""

    def around(self, net: nn.Module, context: Context) -> nn.Module:
        """Any PyG model under this method, called as before; refused where the method needs places of a `Backbone`."""
        raise ValueError(
            f"{type(self).__name__} has no method around, for other models than rade's own backbones, whose places it "
            "may need; build it into your model, and pass a function from your model to that one instead of the name"
        )

    @property
    def options(self) -> dict[str, Any]:
        """The settings and their present values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def configured(self, options: Mapping[str, Any]) -> Method:
        """The same method with other settings."""
        return replace(self, **options)


def check_rate(rate: float) -> None:
    """Refuse a drop rate outside [0, 1): at 1 nothing is left to scale up."""
    if not 0 <= rate < 1:
        raise ValueError(f"the drop rate must lie in [0, 1), got {rate}")
