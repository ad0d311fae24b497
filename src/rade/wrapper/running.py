"""A call of a model, to be repeated on any adjacency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter

from rade.graph.adjacency import Adjacency
from rade.nn.modes import predicted
from rade.wrapper.call import Call, on_clean
from rade.wrapper.conversion import unsupported


@dataclass(frozen=True, eq=False)
class Running:
    """A model and the arguments of one call."""

    model: Module
    call: Call

    def __call__(self, adjacency: Adjacency | None) -> Any:
        """The model's output on an adjacency, or on the caller's own edge_index."""
        return self.on(adjacency)()

    def on(self, adjacency: Adjacency | None) -> Callable[[], Any]:
        """The call on an adjacency, ready to be made."""
        model, call = self.model, self.call
        method = model if call.entry.method == "forward" else getattr(model, call.entry.method)
        args, kwargs = call.with_graph(call.edge_index if adjacency is None else adjacency)
        ready = partial(method, *args, **kwargs)
        alone = unsupported(model)
        if adjacency is None or not alone:
            return ready
        return partial(_with_hooks, ready, alone, on_clean(adjacency, call))

    @property
    def parameters(self) -> list[Parameter]:
        """Those that learn."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def asking(self, rows: Tensor) -> Running:
        """The same for the logits of other nodes; only where the call asks for some."""
        return replace(self, call=self.call.asking(rows))

    def prediction(self, adjacency: Adjacency) -> Tensor:
        """The logits in evaluation mode and without gradients."""
        return predicted(self.model, self.on(adjacency))


def _with_hooks(ready: Callable[[], Any], modules: Sequence[Module], hook: Any) -> Any:
    hooks = [module.register_forward_pre_hook(hook, with_kwargs=True) for module in modules]
    try:
        return ready()
    finally:
        for handle in hooks:
            handle.remove()
