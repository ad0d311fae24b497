"""Why additions cost accuracy when training goes on with few labels: one JSON line per run.

    python -m benchmarks.few_labels --dataset cora --seeds 5 --out few_labels.jsonl

A two-layer GCN, trained for 200 epochs on a share of the nodes of each class, scored on the others at the end (mean of
the last ten epochs) and at its best epoch on a tenth of the nodes. Four kinds of views: none, drops alone, drops and
additions, and drops with as many additions drawn from a node's own true class: noise of the same size whose mean and
covariance know the classes. The last is an experiment of thought, since it needs every label.

Lines that are in the file already are not computed again. Beside the scores, ``across`` is the share of the noise of
the last layer's logits that lies across the class of the node, orthogonal to the mean logits of the class: that of
dropped neighbors, and that of added nodes; ``fit_views`` and ``fit_clean`` are the accuracies of the labelled nodes
on views, as in training, and on the graph itself: where they lie apart, training and inference do.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.study import add, asked, distinct, fit, of_class
from torch import Tensor

import rade
from rade.distribution import Distribution
from rade.graph.sparse import Pattern
from rade.nn.context import Context
from rade.train.backbones import build_backbone

KINDS = {"none": (0.0, 0.0), "drops": (0.5, 0.0), "drops and additions": (0.5, 0.5), "own class": (0.5, 0.5)}
SHARES = (0.01, 0.05, 0.2, 0.6)
EPOCHS, LAST, WIDTH, VALIDATION = 200, 10, 64, 0.1


def within_classes(context: Context, labels: Tensor, distribution: Distribution) -> rade.View:
    """A view whose additions join nodes of one class, as many as uniform ones in the mean."""
    view = Context.draw(context, distribution)
    one = torch.randint(len(labels), (view.added.size // 2,))
    low, high = distinct(one, of_class(labels, labels[one]))
    return rade.View(distribution, view.kept, Pattern.of_pairs(low, high, len(labels), directed=False))


def split(labels: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A share of every class for training, a tenth of all for validation, the rest for the test."""
    order = torch.randperm(len(labels), generator=generator)
    rank = torch.empty_like(order)
    for label in labels.unique():
        mine = order[labels[order] == label]
        rank[mine] = torch.arange(len(mine))
    wanted = (share * torch.bincount(labels)).ceil().long().clamp(min=1)
    training = rank < wanted[labels]
    rest = order[~training[order]]
    cut = int(VALIDATION * len(labels))
    return training.nonzero().squeeze(1), rest[:cut], rest[cut:]


def run(dataset: str, share: float, kind: str, seed: int) -> dict[str, Any]:
    """One line."""
    torch.manual_seed(seed)
    data = rade.data.load(dataset)
    x, y = data.graphs[0].x, data.graphs[0].y
    graph = rade.Graph.from_edge_index(data.graphs[0].edge_index, data.graphs[0].num_nodes)
    train, val, test = split(y, share, torch.Generator().manual_seed(seed))
    net = build_backbone("gcn", data.features, WIDTH, data.classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    p, rho = KINDS[kind]
    model = rade.RADE(net, rule=rade.Constant(p, rho), generator=torch.default_generator)
    if kind == "own class":
        model._context.draw = partial(within_classes, model._context, y)  # type: ignore[method-assign]
    scores: list[tuple[float, float]] = []
    for _ in fit(model, optimizer, lambda: [F.cross_entropy(model(x, graph)[train], y[train])], EPOCHS):
        with torch.no_grad():
            right = model(x, graph).argmax(1) == y
        scores.append((float(right[val].double().mean()), float(right[test].double().mean())))
    best = max(range(EPOCHS), key=lambda epoch: scores[epoch][0])
    found = {"dataset": dataset, "share": share, "kind": kind, "seed": seed, "labelled": len(train)}
    found |= {"last": mean(test for _, test in scores[-LAST:]), "best": scores[best][1], "best_epoch": best}
    with torch.no_grad():
        found["fit_clean"] = float((model.eval()(x, graph).argmax(1) == y)[train].double().mean())
        found["fit_views"] = float((model.train()(x, graph).argmax(1) == y)[train].double().mean())
    return found | across(model, x, y, graph)


@torch.no_grad()
def across(model: rade.RADE, x: Tensor, y: Tensor, graph: rade.Graph) -> dict[str, float]:
    """Shares of noise across a node's class, of dropped neighbors and of added nodes."""
    with model._repeating((x, graph), {}) as call:
        clean = call.clean()
    messages = clean.messages.messages
    assert isinstance(messages, Tensor)
    messages = messages - messages.mean(1, keepdim=True)  # a common shift of the logits changes nothing
    centred = messages - messages.mean(0)  # what additions send beyond their mean, which RADE-OF takes off
    means = torch.stack([messages[y == label].mean(0) for label in range(int(y.max()) + 1)])
    own = F.normalize(means - means.mean(0), dim=1)[y]
    source, target = graph.edge_index
    dropped = messages[source]
    added = centred[torch.randint(len(y), target.shape)]
    return {
        f"across_{name}": float(1.0 - (sent * own[target]).sum(1).square().sum() / sent.square().sum())
        for name, sent in (("dropped", dropped), ("added", added))
    }


def main() -> None:
    names = ("dataset", "share", "kind", "seed")
    given, done = asked(__doc__, "few_labels.jsonl", names, dataset="cora", seeds=5)
    for job in product(given.dataset.split(","), SHARES, KINDS, range(given.seeds)):
        if job not in done:
            line = run(*job)
            add(given.out, line)
            print(
                *(f"{line[name]}" for name in names), f"last {line['last']:.3f}", f"best {line['best']:.3f}", flush=True
            )


if __name__ == "__main__":
    main()
