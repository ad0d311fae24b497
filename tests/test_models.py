"""`docs/layers.md` says what happens to models that people bring; none is silently wrong, no error is obscure."""

import warnings

import pytest
import torch_geometric.nn as pyg
from benchmarks.layer_list import EVERY, LAYERS, OTHERS
from benchmarks.model_list import MODELS
from benchmarks.models import BEGIN, DOCUMENT, REFUSED, WRONG, document, layer_outcome, outcome


@pytest.fixture(scope="module")
def outcomes():
    if not hasattr(pyg, "SGFormer"):
        pytest.skip("this version of PyG lacks one of the models")
    return [outcome(entry) for entry in MODELS]


@pytest.fixture(scope="module")
def layers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [layer_outcome(name, layer) for name, layer in LAYERS.items()]


def test_every_convolution_of_pyg_is_listed_once():
    assert not set(EVERY) - {*LAYERS, *OTHERS}
    assert not set(LAYERS) & set(OTHERS)


def test_every_layer_is_unbiased(layers):
    assert not [one for one in layers if one.unbiased is False]


def test_nothing_is_silently_wrong_or_obscure(outcomes):
    assert not [(one.entry.name, one.sentence) for one in outcomes if one.kind == WRONG]


def test_the_document_is_up_to_date(outcomes, layers):
    text = DOCUMENT.read_text("utf-8")
    assert BEGIN in text
    assert document(outcomes, layers, text) == text, "run python -m benchmarks.models --write"


def test_refusals_are_sentences_with_a_way_out(outcomes):
    """What came, and what to do: a clause after a colon or semicolon."""
    for one in outcomes:
        if one.kind == REFUSED:
            assert len(one.sentence) > 60, one
            assert any(mark in one.sentence for mark in (":", ";", "but")), one
