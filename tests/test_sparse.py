"""Sparse products and inner products at entries against dense matrices, with derivatives of both orders and modes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rade.graph.sparse import Pattern, at_entries, product, row_pointer
from rade.nn.linear import feature_pattern, linear, matmul
from rade.testing.aggregators import normal


def random_pattern(rows: int, columns: int, density: float, seed: int = 0) -> Pattern:
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < density
    target, source = mask.nonzero().t()
    return Pattern.general(row_pointer(target, rows), source, columns)


def symmetric_pattern(n: int, density: float, seed: int = 0) -> Pattern:
    upper = (torch.rand(n, n, generator=torch.Generator().manual_seed(seed)) < density).triu(1)
    target, source = (upper | upper.t()).nonzero().t()
    return Pattern(row_pointer(target, n), source, n, torch.argsort(source, stable=True))


PATTERNS = {
    "rectangular": random_pattern(4, 6, 0.5),
    "symmetric": symmetric_pattern(6, 0.5),
    "empty rows": random_pattern(6, 3, 0.2),
    "empty": random_pattern(3, 4, 0.0),
    "full": random_pattern(3, 3, 1.1),
}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))


def dense(pattern: Pattern, values: Tensor) -> Tensor:
    out = values.new_zeros(pattern.rows, pattern.columns)
    return out.index_put((pattern.target, pattern.source), values)


@every_pattern
def test_products_are_dense_products(pattern):
    values, x, y = normal(pattern.size), normal(pattern.columns, 5, seed=1), normal(pattern.rows, 5, seed=2)
    matrix = dense(pattern, values)
    torch.testing.assert_close(product(values, x, pattern), matrix @ x)
    torch.testing.assert_close(at_entries(y, x, pattern), (y @ x.t())[pattern.target, pattern.source])
    torch.testing.assert_close(pattern.row_sum(values), matrix.sum(1))


@every_pattern
def test_the_transpose_is_the_transpose(pattern):
    values = normal(pattern.size)
    there = pattern.transpose
    torch.testing.assert_close(dense(there, values[pattern.transposition]), dense(pattern, values).t())
    assert there.transpose is pattern
    assert torch.equal(values[pattern.transposition][there.transposition], values)


@every_pattern
def test_derivatives_of_products(pattern):
    """Reverse mode twice and forward mode, against finite differences."""
    inputs = (normal(pattern.size).requires_grad_(), normal(pattern.columns, 3, seed=1).requires_grad_())

    def apply(values: Tensor, x: Tensor) -> Tensor:
        return product(values, x, pattern)

    assert torch.autograd.gradcheck(apply, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(apply, inputs, check_fwd_over_rev=True)


@every_pattern
def test_derivatives_of_products_at_entries(pattern):
    inputs = (normal(pattern.rows, 3).requires_grad_(), normal(pattern.columns, 3, seed=1).requires_grad_())

    def apply(a: Tensor, b: Tensor) -> Tensor:
        return at_entries(a, b, pattern)

    assert torch.autograd.gradcheck(apply, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(apply, inputs, check_fwd_over_rev=True)


@every_pattern
def test_a_moved_pattern_is_the_same(pattern):
    moved = pattern.to("cpu")
    values, x = normal(pattern.size), normal(pattern.columns, 2)
    assert torch.equal(product(values, x, moved), product(values, x, pattern))
    assert moved.transpose.transpose is moved


def test_single_precision_and_one_column():
    pattern = PATTERNS["rectangular"]
    values, x = normal(pattern.size).float(), normal(6, 1).float()
    out = product(values, x, pattern)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, dense(pattern, values) @ x)


def test_strided_features():
    """Transposed and sliced inputs, as layers produce them."""
    pattern = PATTERNS["symmetric"]
    values, wide = normal(pattern.size), normal(8, 12)
    for x in (wide.t()[:6, :4], wide[:6, ::3], normal(1, 4).expand(6, 4)):
        torch.testing.assert_close(product(values, x, pattern), dense(pattern, values) @ x)
        torch.testing.assert_close(at_entries(x, x, pattern), (x @ x.t())[pattern.target, pattern.source])


def test_csr_features_through_a_linear_layer():
    """The same values and gradients as with dense features, bias included or not."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 3).double()
    x = normal(5, 6) * (normal(5, 6, seed=1) > 0)
    for bias in (True, False):
        dense_out, sparse_out = linear(layer, x, bias), linear(layer, x.to_sparse_csr(), bias)
        torch.testing.assert_close(sparse_out, dense_out)
        one, other = (torch.autograd.grad(out.square().sum(), layer.weight)[0] for out in (dense_out, sparse_out))
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(matmul(x.to_sparse_csr(), layer.weight), x @ layer.weight.t())


def test_the_pattern_of_features_is_found_once():
    x = normal(5, 6).to_sparse_csr()
    assert feature_pattern(x) is feature_pattern(x)
    assert feature_pattern(x.clone()) is not feature_pattern(x)


def test_constant_values_are_reordered_once():
    """Features give a new tensor object for the same memory on every call; a change in place is noticed."""
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]]).to_sparse_csr()
    pattern = Pattern.general(x.crow_indices(), x.col_indices(), 3)
    once = pattern.transposed_values(x.values())
    assert pattern.transposed_values(x.values()) is once
    assert once.tolist() == [3.0, 1.0, 2.0, 4.0]
    x.values().mul_(2)
    assert pattern.transposed_values(x.values()).tolist() == [6.0, 2.0, 4.0, 8.0]
