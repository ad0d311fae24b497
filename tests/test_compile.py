"""torch.compile: graphs break at sparse structures, but output and gradients are those of the plain model."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.nn.functional import cross_entropy

from adapting import adapting
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 20
X, EDGES = normal(NODES, 8), random_edges(NODES, 40)
LABELS = torch.arange(NODES) % 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler looks at everything, and warns of what it looks at
def test_a_compiled_model_computes_the_same():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)  # the compiler goes deep, and a worker of the test suite starts deep
    try:
        compare_with_plain()
    finally:
        sys.setrecursionlimit(limit)


def compare_with_plain() -> None:
    torch._dynamo.reset()
    found = []
    for compiled in (False, True):
        model = adapting(seeded(lambda: Net(LAYERS["GCNConv"])), "ofs", generator=torch.Generator().manual_seed(0))
        run = torch.compile(model, backend="eager") if compiled else model
        logits = run.train()(X, EDGES)
        cross_entropy(logits, LABELS).backward()
        model.adapt(X, EDGES)
        gradients = [parameter.grad for parameter in model.parameters()]
        with torch.no_grad():
            found.append([logits, *gradients, model.controller.first, run.eval()(X, EDGES)])
    assert all(torch.equal(one, other) for one, other in zip(*found))
