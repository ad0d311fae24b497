"""`docs/models.md` says what happens to models that people bring; none is silently wrong, no error is obscure."""

from __future__ import annotations

import pytest
import torch_geometric.nn as pyg
from benchmarks.model_list import MODELS
from benchmarks.models import BEGIN, DOCUMENT, REFUSED, WRONG, counted, document, outcome


@pytest.fixture(scope="module")
def outcomes():
    if not hasattr(pyg, "SGFormer"):
        pytest.skip("this version of PyG lacks one of the models")
    return [outcome(entry) for entry in MODELS]


def test_nothing_is_silently_wrong_or_obscure(outcomes):
    assert not [(one.entry.name, one.sentence) for one in outcomes if one.kind == WRONG]


def test_the_document_is_up_to_date(outcomes):
    text = DOCUMENT.read_text("utf-8")
    assert BEGIN in text
    assert document(outcomes, text) == text, "run python -m benchmarks.models --write"


def test_refusals_are_sentences_with_a_way_out(outcomes):
    """What came, and what to do: a clause after a colon or semicolon."""
    for one in outcomes:
        if one.kind == REFUSED:
            assert len(one.sentence) > 60, one
            assert any(mark in one.sentence for mark in (":", ";", "but")), one


def test_names_are_told_apart():
    assert len({entry.name for entry in MODELS}) == len(MODELS) > 60


def test_the_count_says_how_many_are_wrong(outcomes):
    assert counted(outcomes).endswith(" 0 wrong.")
