"""`RADE(model)`: random views in training, the matching aggregation at inference, and rates that tune themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import Module

from rade.control.labelled import labelled_rows, only_valid
from rade.control.regulariser import Regulariser, regulariser
from rade.control.rules import (
    LARGEST_P,
    ConstantRates,
    GradNormRates,
    RateController,
    clean_gradient_norm,
    gradient_norm,
)
from rade.control.variance import PoolingRule, pooled_variance, variance
from rade.graph.build import GraphReuse
from rade.graph.graph import Graph
from rade.view.randomness import branch_off, moved, packed, seeded, unpack
from rade.view.view import (
    ComplementName,
    Correction,
    FreshViews,
    Law,
    MeanView,
    MomentsName,
    Rates,
    SamplingName,
    Variant,
    View,
    choose,
    sample_view,
)
from rade.wrapper.call import Call, build_graph, on_clean, read_call, require_finite
from rade.wrapper.conversion import convert, is_unsupported, revert
from rade.wrapper.explain import LayerReport, explain_layers
from rade.wrapper.trace import Trace, evaluating, head_matrix, logit_messages, outside_inference_mode, path_of, tracing

Task = Literal["multiclass", "binary", "multilabel"]
Pool = Literal["sum", "mean"]
DataGradient = Literal["training", "clean"]
Inference = Literal["expected", "ensemble"]


class RADE(Module):
    """Wrap a PyG model: a fresh random view on every training call, corrected so that inference agrees in expectation.

    The wrapped model is converted in place (see `rade.convert`) and shares its parameters. Call it as you call the
    model; ``adapt`` takes one step of the rate rule after ``loss.backward()``.

    Args:
        model: any module built from the supported convolutions.
        variant: ``"of"`` aligns with the input graph (RADE-OF), ``"ofs"`` keeps the expected additions at inference
            (RADE-OFS), ``"none"`` leaves views uncorrected.
        p, rho: initial drop rate and q/density; 0 switches a rate off for good.
        adaptive: adapt the rates by gradient norms, with ``penalty`` λ on ρ², Adam step ``rate_lr`` and p ≤ ``max_p``.
        density: edges over pairs; taken from the first training graph if not given.
        task: how logits become probabilities. pool: how node logits become graph logits, for graph-level models.
        head: the linear layer(s) from the last (pooled) convolution to the logits, if they cannot be told.
        pooling_rule: ``"exact"`` variance of a pooled logit, or the ``"paper"``'s sum of node variances.
        data_gradient: G_data from the training step, or from the ``"clean"`` graph (needs ``loss=`` in `adapt`).
        inference: ``"expected"`` aggregation or an ``"ensemble"`` over ``views`` sampled views.
        generator: source of all randomness; by default one seeded from torch's.
    """

    def __init__(
        self,
        model: Module,
        variant: Variant | str = "of",
        *,
        p: float = 0.5,
        rho: float = 0.5,
        adaptive: bool = True,
        penalty: float = 1.0,
        rate_lr: float = 1e-3,
        max_p: float = LARGEST_P,
        density: float | None = None,
        task: Task = "multiclass",
        pool: Pool | None = None,
        pooling_rule: PoolingRule = "exact",
        head: Module | None = None,
        moments: MomentsName = "exact",
        sampling: SamplingName = "bernoulli",
        complement: ComplementName = "exact",
        samples: int = 256,
        share_view: bool = True,
        max_correction: float | Literal["auto", "none"] = "auto",
        data_gradient: DataGradient = "training",
        inference: Inference = "expected",
        views: int = 8,
        edge_index_arg: str = "edge_index",
        strict: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if isinstance(model, RADE):
            raise ValueError("the model is wrapped in RADE already; wrap what it wraps, RADE(rade.revert(model), ...)")
        choose("task", task, get_args(Task))
        choose("pool", pool or "sum", get_args(Pool))  # PyG's global_add_pool is a sum
        choose("pooling_rule", pooling_rule, get_args(PoolingRule))
        choose("sampling", sampling, get_args(SamplingName))
        choose("data_gradient", data_gradient, get_args(DataGradient))
        choose("inference", inference, get_args(Inference))
        if adaptive and moments == "monte-carlo":
            raise ValueError("moments='monte-carlo' has no derivative in the rates; pass adaptive=False as well")
        if views < 1:
            raise ValueError(f"views must be at least 1, got {views}")
        self.correction = Correction(variant, moments, complement, samples, max_correction)
        self.wrapped = convert(model, strict)
        self.controller: RateController = (
            GradNormRates(p, rho, density, penalty, rate_lr, max_p) if adaptive else ConstantRates(p, rho, density)
        )
        self.task, self.pool, self.pooling_rule = task, pool, pooling_rule
        self.sampling, self.share_view, self.data_gradient = sampling, share_view, data_gradient
        self.inference, self.views, self.edge_index_arg = inference, views, edge_index_arg
        self._head_path = path_of(model, head)
        self._generator = seeded() if generator is None else generator
        self._graphs = GraphReuse()

    @property
    def rates(self) -> Rates:
        """Current drop rate p and add rate q."""
        return self.controller.rates

    @property
    def generator(self) -> torch.Generator:
        """Where views come from."""
        return self._generator

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output on a fresh view (training) or on the expected aggregation (evaluation)."""
        with outside_inference_mode():
            return self._forward(read_call(self.wrapped, self.edge_index_arg, args, kwargs))

    def _forward(self, call: Call) -> Any:
        graph = self._graph(call)
        if self.training:
            self.controller.see(graph)
            return self._run(call, self._random(graph))
        if self.inference == "ensemble":
            total = self._run(call, self._random(graph))
            for _ in range(self.views - 1):
                total = total + self._run(call, self._random(graph))
            return total / self.views
        return self._run(call, MeanView(graph, self.law(graph)))

    def law(self, graph: Graph) -> Law:
        """The distribution of views at the current rates."""
        rates = self.controller.rates_at(graph.density)  # until training has seen a density: this graph's
        return Law(rates, self.correction, self._generator_for(graph.device))

    def adapt(
        self,
        *args: Any,
        index: Tensor | None = None,
        mask: Tensor | None = None,
        loss: Callable[[Tensor], Tensor] | None = None,
        share: float = 1.0,
        **kwargs: Any,
    ) -> Tensor:
        """One step of the rate rule, with the gradients that ``loss.backward()`` left; returns the clean logits.

        Args:
            args, kwargs: what forward takes.
            index: labelled nodes (int64 ids or a bool mask) that the loss was taken over; all by default.
            mask: valid labels, broadcastable to [|index|, C].
            loss: from clean logits to the training loss, for ``data_gradient="clean"``.
            share: under data-parallel training with uneven parts, the factor by which this part's loss was multiplied
                so that the mean over processes is the loss of the whole batch.
        """
        call = read_call(self.wrapped, self.edge_index_arg, args, kwargs)
        graph = self._graph(call)
        self.controller.see(graph)
        parameters = [parameter for parameter in self.wrapped.parameters() if parameter.requires_grad]
        if isinstance(self.controller, ConstantRates):
            with torch.no_grad(), evaluating(self.wrapped):
                plain: Tensor = self._run(call, graph)
                return plain
        norm = None if self.data_gradient == "clean" else gradient_norm(parameters)
        # The input-graph pass is the evaluation pass: no dropout, running statistics.
        with torch.enable_grad(), evaluating(self.wrapped):
            with tracing(self.wrapped) as trace:
                logits: Tensor = self._run(call, graph)
            if norm is None:
                norm = clean_gradient_norm(logits, loss, parameters, share)
            self.controller.step(self.regulariser(logits, trace, graph, index, mask, share), norm, parameters)
        return logits.detach()

    def regulariser(
        self,
        logits: Tensor,
        trace: Trace,
        graph: Graph,
        index: Tensor | None = None,
        mask: Tensor | None = None,
        share: float = 1.0,
    ) -> Regulariser:
        """R of a clean forward pass over the labelled rows ``index``, times ``share``, as a function of the rates."""
        scores = logits if logits.dim() == 2 else logits[:, None]
        rows = graph.num_nodes if self.pool is None else graph.num_graphs
        if scores.shape[0] != rows:
            raise ValueError(
                f"expected logits for {rows} {'nodes' if self.pool is None else 'graphs'}, got {scores.shape[0]} rows; "
                "say how nodes are pooled, RADE(model, pool='sum'|'mean'), or pool=None for node-level models"
            )
        if self.task == "multiclass" and scores.shape[1] == 1:
            raise ValueError("one logit per row has no classes to choose from; for two classes pass task='binary'")
        chosen = labelled_rows(index, rows, scores.device)
        head = head_matrix(self.wrapped, trace, scores.shape[1], self._head())
        coefficients, messages = logit_messages(trace, graph, head)
        probability = scores[chosen].softmax(-1) if self.task == "multiclass" else scores[chosen].sigmoid()
        weight = share * only_valid(probability * (1.0 - probability), mask)

        def spread(law: Law) -> Any:
            if self.pool is None:
                return variance(coefficients, law, messages).rows(chosen)
            mean = self.pool == "mean"
            return pooled_variance(coefficients, law, messages, mean, self.pooling_rule).rows(chosen)

        return regulariser(weight, spread, self.law(graph), coefficients)

    def explain(self, *args: Any, **kwargs: Any) -> list[LayerReport]:
        """What RADE does to each convolution at the current rates: see `rade.wrapper.explain.LayerReport`."""
        with outside_inference_mode():
            return self._explain(read_call(self.wrapped, self.edge_index_arg, args, kwargs))

    def _explain(self, call: Call) -> list[LayerReport]:
        graph = self._graph(call)
        with torch.no_grad(), evaluating(self.wrapped), tracing(self.wrapped) as trace:
            self._run(call, graph)
            return explain_layers(trace, graph, self.law(graph).at(self.controller.rates_at(graph.density)))

    def get_extra_state(self) -> dict[str, Tensor]:
        """The generator's state; not a buffer, since those are broadcast and ranks must draw different views."""
        return packed(self._generator)

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Continue the stream of views; ranks of a distributed run branch off into streams of their own."""
        unpack(self._generator, state)
        branch_off(self._generator)

    def _graph(self, call: Call) -> Graph:
        require_finite(call.x)
        kept = (call.batch, call.ptr)
        return self._graphs.get(call.edge_index, call.num_nodes, kept, lambda: build_graph(call, self.wrapped))

    def _random(self, graph: Graph) -> View | FreshViews:
        law = self.law(graph)
        if not self.share_view:
            return FreshViews(graph, law, self.sampling)
        return sample_view(graph, law.rates, law.generator, self.correction, self.sampling)

    def _run(self, call: Call, adjacency: Any) -> Any:
        args, kwargs = call.with_graph(adjacency)
        hooks = [m.register_forward_pre_hook(on_clean(adjacency, call), with_kwargs=True) for m in self._left_alone()]
        try:
            return self.wrapped(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()

    def _left_alone(self) -> list[Module]:
        return [module for module in self.wrapped.modules() if is_unsupported(module)]

    def _head(self) -> Module | None:
        return None if self._head_path is None else self.wrapped.get_submodule(self._head_path)

    def _generator_for(self, device: torch.device) -> torch.Generator:
        if self._generator.device != device:
            self._generator = moved(self._generator, device)
        return self._generator


@revert.register
def _(model: RADE) -> Module:
    return revert(model.wrapped)
