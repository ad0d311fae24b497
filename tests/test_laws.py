"""Every promise of an aggregator, for every aggregator; and that the checks see what they are for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import rade.testing
from rade.distribution import Correction, Distribution, Rates, Views
from rade.graph.graph import Graph
from rade.moments import Coefficients, Moments, Normalised, Weights
from rade.testing import ALL, CHECKS, GRAPHS, Aggregator, AllViews, plain
from rade.testing.aggregators import EXACT
from rade.testing.oracle import error, on_pairs


class Sum(Normalised):
    """α_ij = 1, as a class that can be broken: its factors follow from coefficients and means."""

    ratio = Coefficients.ratio

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        super().__init__(graph, dtype, 0.0, 0.0)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("aggregator", ALL, ids=str)
def test_promise(aggregator, check):
    """Over all cases of ``rade.testing.CASES``, and all views of each."""
    CHECKS[check](aggregator)


def broken(name: str, base: type[Coefficients], **changes) -> Aggregator:
    """An aggregator with some methods replaced."""
    return Aggregator(name, plain(type(name, (base,), changes)), 1e-8)


def keeps_its_mean(self: Coefficients, distribution: Distribution) -> Moments:
    """The mean without the rates."""
    return Sum.mean(self, distribution.at(Rates(0.0, 0.0)))


def twice(self: Coefficients, distribution: Distribution) -> Moments:
    """A covariance that counts edges twice."""
    moments = Sum.variance(self, distribution)
    return replace(moments, edges=2.0 * moments.edges)


def coarse(self: Coefficients) -> Weights:
    """Coefficients that went through half precision, which float64 does not show."""
    weights = Sum.clean(self)
    third = weights.edges / 3.0
    return replace(weights, edges=third if self.dtype == torch.double else third.half().float())


def jumping(self: Coefficients, distribution: Distribution) -> Moments:
    """A variance whose slope in p is lost."""
    return Sum.variance(self, distribution.at(Rates(distribution.rates.numbers[0], distribution.rates.q)))


def unpaired(self: Coefficients) -> Weights:
    """α that changes with every use."""
    return Weights(torch.rand(self.graph.pattern.size, dtype=self.dtype), self.no_loop(), self.nothing_added())


BROKEN = {
    "moments_are_those_of_all_views": {"mean": keeps_its_mean},
    "corrected_mean_is_what_inference_computes": {"mean": keeps_its_mean},
    "views_are_aggregated_as_the_paper_writes": {"clean": unpaired},
    "variance_is_that_of_all_views": {"variance": keeps_its_mean},
    "pooled_variance_lets_both_ends_meet": {"covariance": twice},
    "single_precision_is_near_double": {"clean": coarse},
    "moments_follow_the_rates": {"variance": jumping},
    "equal_keys_promise_equal_aggregation": {"key": property(lambda self: "one word for all precisions")},
}


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_finds_a_broken_promise(check):
    """And says on which graph, at which rates."""
    with pytest.raises(AssertionError, match=r"graph '[a-z-]+' at p=0"):
        CHECKS[check](broken("Broken", Sum, **BROKEN[check]))


def test_a_forgotten_covariance_is_found():
    """The default knows edges only; sums share their edge on non-edges as well."""
    with pytest.raises(AssertionError, match="nothing is said of non-edges, but they do covary: give `covariance`"):
        CHECKS["pooled_variance_lets_both_ends_meet"](broken("Forgetful", Sum, covariance=Coefficients.covariance))


def test_a_subclass_must_make_its_own_promise():
    """An inherited key would let other coefficients share the parent's sums."""

    assert Normalised.sum(GRAPHS["path"], torch.double).key is not None
    assert Sum(GRAPHS["path"], torch.double).key is None


def test_no_pytest_is_needed():
    for path in Path(rade.testing.__file__).parent.glob("*.py"):
        assert not re.search(r"^\s*(import|from) _?pytest", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_fixed_numbers_cannot_be_enumerated():
    with pytest.raises(ValueError, match="only independent additions can be enumerated, got sampling='fixed'"):
        AllViews(Distribution(GRAPHS["path"], Rates(0.3, 0.2), views=Views(sampling="fixed")))


@pytest.mark.parametrize("aggregator", EXACT, ids=str)
def test_delta_moments_are_near(aggregator):
    """The paper's expansion against exact moments: 12 % on these tiny degrees."""
    graph = GRAPHS["path"]
    coefficients, distribution = aggregator.alone(graph), Distribution(graph, Rates(0.3, 0.2))
    delta = replace(distribution, correction=Correction(moments="delta"))
    exact, expanded = (on_pairs(graph, coefficients.mean(each), None) for each in (distribution, delta))
    assert error(expanded, exact) <= 0.12
