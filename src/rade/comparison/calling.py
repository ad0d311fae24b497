"""How a model is called with a `Data` object: by the names of its forward's parameters, or with the object itself."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data

from rade.nn.output import logits_of

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Calling:
    """The parameters that are filled from a `Data` object; none: the object is the only argument.

    Attributes:
        names: parameters of the model's forward.
        needed: those of them without a default.
    """

    names: tuple[str, ...]
    needed: tuple[str, ...]

    @staticmethod
    def of(net: Module) -> Calling:
        """As the model's forward has it."""
        parameters = inspect.signature(net.forward).parameters
        taken = [parameter for parameter in parameters.values() if parameter.kind in _NAMED]
        needed = tuple(parameter.name for parameter in taken if parameter.default is inspect.Parameter.empty)
        if "edge_index" not in parameters:
            if len(needed) > 1:
                raise ValueError(
                    f"the model's forward takes {', '.join(needed)}; it is called with parts of the data by name, "
                    "the graph being edge_index, or with the Data object alone: rename the parameter, or put the "
                    "model into one whose forward takes x and edge_index"
                )
            return Calling((), ())
        return Calling(tuple(parameter.name for parameter in taken), needed)

    def __call__(self, net: Module, data: Data) -> Tensor:
        """The logits [k, C] or [k]; of several outputs the first."""
        return logits_of(net(**self._arguments(data)) if self.names else net(data))

    def _arguments(self, data: Data) -> dict[str, Any]:
        found = {name: data[name] for name in self.names if name in data and data[name] is not None}
        missing = [name for name in self.needed if name not in found]
        if missing == ["batch"]:  # a single graph
            return {**found, "batch": None}
        if missing:
            raise ValueError(
                f"the model's forward needs {missing[0]!r}, which the data does not have (it has "
                f"{', '.join(sorted(data.keys()))}); add it to the data, or let forward take the Data object"
            )
        return found
