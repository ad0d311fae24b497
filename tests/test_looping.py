"""A test over many cases fails like many tests."""

from __future__ import annotations

import inspect

import pytest

from looping import looped


def test_all_cases_run_and_those_that_fail_are_named():
    ran = []

    @looped(("a", "b"), [(1, 2), (3, 3), (5, 6)])
    @looped("c", [0, 1])
    def check(a, b, c, tmp_path):
        ran.append((a, b, c))
        if c == 1:
            pytest.skip("not this one")
        assert a < 5
        assert a != b

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    with pytest.raises(AssertionError, match=r"(?s)2 of 3 cases:.*\[a=3, b=3\].*c=0.*\[a=5, b=6\]"):
        check(tmp_path=None)
    assert len(ran) == 6
