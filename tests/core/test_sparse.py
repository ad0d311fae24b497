"""Sparse products and inner products at entries against dense matrices, with derivatives of both orders."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rade.graph.sparse import Pattern, at_entries, product, row_pointer
from rade.nn.linear import as_sparse, feature_pattern, linear, matmul
from rade.testing.aggregators import normal


def pattern_of(mask: Tensor, symmetric: bool = False) -> Pattern:
    target, source = mask.nonzero().t()
    pointer = row_pointer(target, len(mask))
    if symmetric:
        return Pattern(pointer, source, len(mask), torch.argsort(source, stable=True))
    return Pattern.general(pointer, source, mask.shape[1])


UPPER = (normal(6, 6) > 0).triu(1)
PATTERNS = {
    "rectangular": pattern_of(normal(4, 6) > 0),
    "symmetric": pattern_of(UPPER | UPPER.t(), symmetric=True),
    "empty rows": pattern_of(normal(6, 3) > 0.8),
    "empty": pattern_of(torch.zeros(3, 4, dtype=torch.bool)),
    "full": pattern_of(torch.ones(3, 3, dtype=torch.bool)),
}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))


def dense(pattern: Pattern, values: Tensor) -> Tensor:
    return values.new_zeros(pattern.rows, pattern.columns).index_put((pattern.target, pattern.source), values)


@every_pattern
def test_products_are_dense_products(pattern):
    values, x, y = normal(pattern.size), normal(pattern.columns, 5, seed=1), normal(pattern.rows, 5, seed=2)
    matrix = dense(pattern, values)
    torch.testing.assert_close(product(values, x, pattern), matrix @ x)
    torch.testing.assert_close(at_entries(y, x, pattern), (y @ x.t())[pattern.target, pattern.source])
    torch.testing.assert_close(pattern.row_sum(values), matrix.sum(1))
    torch.testing.assert_close(pattern.column_sum(values), matrix.sum(0))
    rows = torch.tensor([2, 0])
    block, entries = pattern.block(rows)
    torch.testing.assert_close(dense(block, values[entries]), matrix[rows])
    assert pattern.block(rows)[0] is block


@every_pattern
def test_the_transpose_is_the_transpose(pattern):
    values, there = normal(pattern.size), pattern.transpose
    torch.testing.assert_close(dense(there, values[pattern.transposition]), dense(pattern, values).t())
    assert there.transpose is pattern
    assert torch.equal(values[pattern.transposition][there.transposition], values)
    moved = pattern.to("cpu")
    assert moved.transpose.transpose is moved


@every_pattern
def test_derivatives(pattern):
    """Of products and of inner products at entries, twice, against finite differences."""
    shapes = ((pattern.size,), (pattern.columns, 3), (pattern.rows, 3))
    values, x, y = (normal(*shape).requires_grad_() for shape in shapes)
    for apply, inputs in ((product, (values, x)), (at_entries, (y, x))):
        assert torch.autograd.gradcheck(lambda *given, of=apply: of(*given, pattern), inputs)
        assert torch.autograd.gradgradcheck(lambda *given, of=apply: of(*given, pattern), inputs)


def test_any_strides_and_single_precision():
    """Transposed, sliced and broadcast inputs, as layers produce them; one column."""
    pattern, wide = PATTERNS["symmetric"], normal(8, 12)
    values = normal(pattern.size)
    for x in (wide.t()[:6, :4], wide[:6, ::3], normal(1, 4).expand(6, 4), normal(6, 1)):
        torch.testing.assert_close(product(values, x, pattern), dense(pattern, values) @ x)
        torch.testing.assert_close(at_entries(x, x, pattern), (x @ x.t())[pattern.target, pattern.source])
    assert product(values.float(), normal(6, 2).float(), pattern).dtype == torch.float


def test_csr_features_through_a_linear_layer():
    """The same values and gradients as with dense features, bias included or not; the pattern is found once."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(6, 3).double(), normal(5, 6) * (normal(5, 6, seed=1) > 0)
    for bias in (True, False):
        outs = linear(layer, x, bias), linear(layer, x.to_sparse_csr(), bias)
        torch.testing.assert_close(*outs)
        torch.testing.assert_close(*(torch.autograd.grad(out.square().sum(), layer.weight)[0] for out in outs))
    torch.testing.assert_close(matmul(x.to_sparse_csr(), layer.weight), x @ layer.weight.t())
    given = x.to_sparse_csr()
    assert feature_pattern(given) is feature_pattern(given)
    assert feature_pattern(given.clone()) is not feature_pattern(given)


def test_constant_values_are_reordered_once():
    """Features give a new tensor object for the same memory on every call; a change in place is noticed."""
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]]).to_sparse_csr()
    pattern = Pattern.general(x.crow_indices(), x.col_indices(), 3)
    once = pattern.transposed_values(x.values())
    assert pattern.transposed_values(x.values()) is once
    assert once.tolist() == [3.0, 1.0, 2.0, 4.0]
    x.values().mul_(2)
    assert pattern.transposed_values(x.values()).tolist() == [6.0, 2.0, 4.0, 8.0]


def test_features_that_are_mostly_zero_become_sparse_once_they_came_thrice(monkeypatch):
    """A bag of words given dense; made anew, changed in place, wanting gradients or dense at heart, it stays dense."""
    monkeypatch.setattr("rade.nn.linear.MANY", 1)
    x = torch.zeros(40, 20)
    x[torch.arange(40), torch.arange(40) % 20] = 1.0
    assert [as_sparse(x).layout for _ in range(4)] == [torch.strided] * 2 + [torch.sparse_csr] * 2
    assert torch.equal(as_sparse(x).to_dense(), x)
    x[0, 3] = 2.0
    assert as_sparse(x) is x
    for given in (torch.ones(40, 20), x.clone().requires_grad_(), x.to(torch.bfloat16)):
        assert all(as_sparse(given) is given for _ in range(5))
    assert all(as_sparse(x * 2.0).layout == torch.strided for _ in range(5))
