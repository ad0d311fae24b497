"""What every aggregator promises, by name: ``for check in CHECKS.values(): check(mine)`` tests one of your own."""

from __future__ import annotations

from collections.abc import Callable

from rade.testing import expectations, symmetries, variances
from rade.testing.aggregators import Aggregator

_ALL = (
    expectations.moments_are_those_of_all_views,
    expectations.both_directions_covary_as_stated,
    expectations.corrected_mean_is_what_inference_computes,
    expectations.denoised_mean_is_what_inference_computes,
    expectations.views_are_aggregated_as_the_paper_writes,
    expectations.without_dropping_and_adding_all_is_clean,
    variances.variance_is_that_of_all_views,
    variances.pooled_variance_lets_both_ends_meet,
    variances.edges_may_send_messages_of_their_own,
    symmetries.nodes_may_be_numbered_otherwise,
    symmetries.edges_may_be_listed_in_any_order,
    symmetries.a_batch_is_its_graphs,
    symmetries.single_precision_is_near_double,
    symmetries.moments_follow_the_rates,
    symmetries.equal_keys_promise_equal_aggregation,
)
# Each returns nothing, or raises an AssertionError that names graph, rates, variant and the error found.
CHECKS: dict[str, Callable[[Aggregator], None]] = {check.__name__: check for check in _ALL}
