"""What is compared: names of `rade.augment`, its values, or functions from a model to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch.nn import Module

from rade.augment import METHODS, Context, Method, make
from rade.comparison.problems import Graphs, Problem
from rade.comparison.training import Training
from rade.train.errors import unknown

Way = Callable[[Module], Module] | Method
PENALTY = 0.1  # of the paper, for graph tasks


@dataclass(frozen=True)
class Named:
    """A method under the name that tables and sentences use."""

    name: str
    way: Way

    def around(self, net: Module, context: Context) -> Module:
        """The model that is trained."""
        if isinstance(self.way, Method):
            return self.way.around(net, context)
        found = self.way(net)
        if not isinstance(found, Module):
            raise TypeError(f"method {self.name!r} must return a model, got {type(found).__name__}")
        return found


def methods_of(
    given: Sequence[str] | Mapping[str, str | Way], problem: Problem, training: Training
) -> tuple[Named, ...]:
    """The methods, checked; those of graph tasks with the paper's penalty for them."""
    if isinstance(given, str):
        raise TypeError(f"methods must be several names, such as ('none', {given!r}), got {given!r}")
    named: dict[str, str | Way] = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    graphs = isinstance(problem, Graphs)
    found = tuple(Named(name, _way(way, graphs)) for name, way in named.items())
    if len(found) < 2 or len(found) < len(given):
        raise ValueError(f"a comparison needs at least two different methods, got {', '.join(given) or 'none'}")
    for one in found:
        adapts = isinstance(one.way, Method) and "pooling_rule" in one.way.options
        if adapts and graphs and training.pool is None:
            raise ValueError(
                f"the rates of {one.name} adapt by how the model pools nodes to graphs: say Training(pool='sum') or "
                "Training(pool='mean'), or keep them ('rade-of-fixed', 'rade-of-noise')"
            )
    return found


def _way(way: str | Way, graphs: bool) -> Way:
    if not isinstance(way, str):
        if not callable(way) and not isinstance(way, Method):
            raise TypeError(f"a method is a name, a function from model to model, or a rade.augment value, got {way!r}")
        return way
    if way not in METHODS:
        raise unknown("method", way, METHODS)
    return make(way, **({"penalty": PENALTY} if graphs and "penalty" in METHODS[way].options else {}))
