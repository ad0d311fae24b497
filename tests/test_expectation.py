"""Training agrees with inference in expectation: one-layer models over 4,096 views of a 200-node graph.

The views are those of a batch of copies of the graph, so that a few forward passes draw them all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from rade.control.labelled import Labelled
from rade.control.regulariser import regulariser
from rade.wrapper.clean import clean_pass
from rade.wrapper.running import Running
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch_geometric.nn import GINConv, GraphConv, SGConv

import rade
from looping import looped
from rade.testing.oracle import copies
from zoo import ATTENTION, LAYERS, normal, random_edges, seeded

NODES, FEATURES, OUT = 200, 5, 3
COPIES, PASSES = 1024, 4
VIEWS = COPIES * PASSES
# 600 outputs per model and 22 models: |z| > 6 happens by chance in one of 38,000 runs (normal tails, 2·10⁻⁹ each).
LARGEST_Z = 6.0
X = normal(NODES, FEATURES, dtype=torch.double)
EDGES = random_edges(NODES, 500)
SCALES = {None: 0.03, "sum": 0.003, "mean": 0.3}  # of the linear model's weights
every_variant = looped("variant", ["of", "ofs"])


@cache
def clean() -> rade.Graph:
    return rade.Graph.from_edge_index(EDGES, NODES)


@cache
def many(count: int = COPIES) -> rade.Graph:
    return copies(clean(), count)


def wrapped(layer: torch.nn.Module, variant: str, **options: Any) -> rade.RADE:
    options = {"views": rade.Views(shared=True), "density": clean().density, **options}
    return rade.RADE(layer.double(), variant, generator=torch.Generator().manual_seed(0), **options)


@torch.no_grad()
def over_views(model: rade.RADE, *rest: Tensor, count: int = COPIES, passes: int = PASSES) -> Tensor:
    """The training output on many views, [views, rows, F]; ``rest`` in the order of the clean graph's pattern."""
    x, others = X.repeat(count, 1), [value.repeat(count) for value in rest]
    outs = [model.train()(x, many(count), *others) for _ in range(passes)]
    return torch.cat([out.view(count, -1, out.shape[-1]) for out in outs])


def scores(outputs: Tensor, target: Tensor) -> Tensor:
    """z of every output: deviation of the mean over standard errors."""
    return (outputs.mean(0) - target) / (outputs.std(0) / len(outputs) ** 0.5)


@every_variant
@pytest.mark.parametrize("name", LAYERS)
def test_training_output_averages_to_the_evaluation_output(name, variant):
    """Every supported layer; the uncorrected view fails the same test by far."""
    model = wrapped(seeded(lambda: LAYERS[name](FEATURES, OUT)), variant)
    z = scores(over_views(model), model.eval()(X, clean()).detach()).abs()
    rms = z.square().mean().sqrt()
    print(f"{name} RADE-{variant.upper()}: largest |z| of {z.numel()} is {z.max():.2f}, rms {rms:.2f}")
    assert float(z.max()) < LARGEST_Z


@every_variant
def test_edge_weights_follow_the_edges(variant):
    """GraphConv with weights of both signs, different in either direction; added edges weigh 1."""
    weight = normal(clean().pattern.size, seed=1, dtype=torch.double)
    model = wrapped(seeded(lambda: GraphConv(FEATURES, OUT)), variant)
    outputs = over_views(model, weight[clean().order])
    z = scores(outputs, model.eval()(X, clean(), weight).detach()).abs()
    assert float(z.max()) < LARGEST_Z


def test_uncorrected_views_are_far_from_the_evaluation_output():
    """The power of the test: without the correction the bias is many standard errors, and visible."""
    model = wrapped(seeded(lambda: LAYERS["GCNConv"](FEATURES, OUT)), "none")
    outputs, target = over_views(model), model.eval()(X, clean()).detach()
    bias = float((outputs.mean(0) - target).norm() / target.norm())
    print(f"uncorrected GCN: bias {bias:.1%}, largest |z| {float(scores(outputs, target).abs().max()):.0f}")
    assert float(scores(outputs, target).abs().max()) > 50
    assert bias > 0.2


@pytest.mark.parametrize("name", ["GATConv", "GATConv-heads"])
def test_bias_of_attention_is_small(name):
    """Its moments are exact to 1e-5: the bias is printed, beside that without correction; what is left is noise.

    Over 256 views; what the noise of the mean adds to its squared distance is subtracted.
    """
    layer, biases = seeded(lambda: ATTENTION[name](FEATURES, OUT)), {}
    for variant in ("of", "ofs", "none"):
        model = wrapped(layer, variant)
        outputs, target = over_views(model, count=256, passes=1), model.eval()(X, clean()).detach()
        distance = (outputs.mean(0) - target).square().sum() - (outputs.var(0) / len(outputs)).sum()
        biases[variant] = float(distance.clamp(min=0).sqrt() / target.norm())
    print(f"{name}: bias " + ", ".join(f"{variant} {bias:.1%}" for variant, bias in biases.items()))
    assert max(biases["of"], biases["ofs"]) < biases["none"] / 2


class Logits(torch.nn.Module):
    """A linear model: one convolution gives the logits, of graphs if they are pooled."""

    def __init__(self, conv: torch.nn.Module, pool: str | None) -> None:
        super().__init__()
        self.conv, self.pool = conv, pool

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        out = self.conv(x, edge_index)
        if self.pool is None:
            return out
        pooled = edge_index.graph.pool(out)
        return pooled / edge_index.graph.sizes[:, None] if self.pool == "mean" else pooled


def loss_gap(model: rade.RADE, labels: Tensor) -> tuple[float, float, float]:
    """E[L̃] − L over the views, its standard error, and R; L is the loss in evaluation (RADE-OF: on the clean graph).

    The first-order term ⟨∇L, δ⟩ of every view has mean zero by the law above and only adds noise: it is left out.
    """
    logits = over_views(model)  # [views, rows, C]
    target = model.eval()(X, clean()).detach().requires_grad_()
    task, pool = model.readout.task, model.readout.pool
    loss = LOSSES[task](target, labels).mean()
    (slope,) = torch.autograd.grad(loss, target)
    losses = LOSSES[task](logits.flatten(0, 1), labels.repeat(len(logits))).view(logits.shape[:2]).mean(1)
    gap = losses - loss.detach() - ((logits - target.detach()) * slope).sum((1, 2))
    found = clean_pass(Running(model.wrapped, model._call((X, clean()), {})), clean(), model.readout)
    law, parameters = model.law(clean()), list(model.wrapped.parameters())
    r = regulariser(found, model.readout, Labelled(), law, parameters)(model.rates).detach()
    mean, error, name = gap.mean(), gap.std() / len(gap) ** 0.5, f"RADE-{law.variant.value.upper()}"
    print(f"{task}, pool={pool}, {name}: E[L̃] − L = {mean:.2e} ± {error:.0e} = {mean / r:.3f} R")
    return float(mean), float(error), float(r)


LOSSES = {
    "binary": lambda z, y: binary_cross_entropy_with_logits(z.squeeze(1), y.double(), reduction="none"),
    "multiclass": lambda z, y: cross_entropy(z, y, reduction="none"),
}


def linear_model(conv: torch.nn.Module, variant: str, pool: str | None, task: str) -> rade.RADE:
    """Weights that keep the logits small: what R leaves out is of higher order in them."""
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.copy_(SCALES[pool] * normal(*parameter.shape, seed=2))
    readout = rade.Readout(task=task, pool=pool)
    return wrapped(Logits(conv, pool), variant, readout=readout, rule=rade.GradNorm(p=0.3))


@every_variant
@pytest.mark.parametrize("pool", [None, "sum", "mean"])
def test_mean_training_loss_exceeds_the_clean_loss_by_the_regulariser(pool, variant):
    """A linear model with sums and one logit (Appendix A): E[L̃] − L = R, at nodes and after pooling.

    Allowed: 5 standard errors (false alarm 6e-7) and 1 % for the terms of higher order.
    """
    model = linear_model(GINConv(torch.nn.Linear(FEATURES, 1, bias=False)), variant, pool, "binary")
    labels = torch.arange(NODES) % 2 if pool is None else torch.tensor([1])
    gap, error, r = loss_gap(model, labels)
    assert abs(gap - r) < 5 * error + 0.01 * r
    assert error < 0.03 * r


@every_variant
def test_what_the_regulariser_leaves_out(variant):
    """Printed and bounded: several classes' logits move together, and so do the coefficients of a node of a GCN."""
    several = linear_model(GINConv(torch.nn.Linear(FEATURES, OUT, bias=False)), variant, None, "multiclass")
    gap, _, r = loss_gap(several, torch.arange(NODES) % OUT)
    assert 0.9 < gap / r < 1.1
    normalised = linear_model(SGConv(FEATURES, 1, K=1, bias=False), variant, None, "binary")
    gap, _, r = loss_gap(normalised, torch.arange(NODES) % 2)
    assert 0.7 < gap / r < 1.3
