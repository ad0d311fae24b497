"""Any configuration or command line: trained, or refused in one sentence with a documented code.

A small share in every test run, always the same one; as much as RADE_FUZZ says with `make fuzz`.
"""

import json
import os
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rade import data as data_sets
from rade.data import Words, load
from rade.errors import RadeError
from rade.train.backbones import BACKBONES
from rade.train.methods import METHODS
from rade.train.settings import Settings

EXAMPLES = int(os.environ.get("RADE_FUZZ", "0"))
tried = settings(
    max_examples=EXAMPLES or 12, derandomize=EXAMPLES == 0, database=None, deadline=None, print_blob=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

# Nothing between 4 and the bounds: such numbers would be taken, and only cost time and memory.
NUMBERS = [-(2**63) - 1, -1, 0, 1, 2, 3, 2**31, 2**63 - 1, 2**64, 10**30, 0.5, 1.0, -0.5, 1e-320, 1e-3, 1e39, 1e308]
WORDS = ["", " ", "none", "rade-of", "csbm", "gcn", "auto", "true", "nan", "inf", "meta", "cpu", "..", "x" * 300, "é±"]
SPECIAL = [float("inf"), float("-inf"), float("nan")]
OPTIONS = {name for entry in METHODS.values() for name in entry.options}
NAMES = sorted((set(Settings.model_fields) - {"options"}) | OPTIONS | {"runs", "protocol", "options"})
scalar = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.sampled_from(SPECIAL), st.booleans())
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
value = st.recursive(scalar | text, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
name = st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), st.from_regex(r"[a-z_]{1,8}", fullmatch=True))
FLAGS = ("--resume", "--overwrite", "--json", "--no-such-option", "--")
COMMANDS = ("train", "predict", "datasets", "trian")
option = st.one_of(
    st.tuples(st.sampled_from([f"--{name.replace('_', '-')}" for name in NAMES]), scalar.map(str)),
    st.tuples(st.just("--set"), st.tuples(name, value).map(lambda pair: f"{pair[0]}={toml(pair[1])}")),
    st.tuples(st.sampled_from(["--out", "--config", "--data-root"]), st.sampled_from([*WORDS, "\udcff"])),
    st.tuples(st.sampled_from(FLAGS)),
    st.tuples(scalar.map(str)),
)


def toml(content) -> str:
    """A value in TOML."""
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, list):
        return "[" + ", ".join(toml(item) for item in content) + "]"
    if isinstance(content, str):
        return json.dumps(content).replace("\x7f", "\\u007f")
    return str(content)


class Enough(RadeError):
    """The settings were accepted: nothing is to be trained."""

    code = 0


def enough(name, root):
    raise Enough("accepted")


def small(name, root):
    """The embedded data sets at a tenth of their size; any other as usual."""
    return load(name, root, **{"csbm": {"nodes": 250, "content": Words(60)}, "far-pair": {"graphs": 30}}.get(name, {}))


@pytest.fixture
def call(rade, monkeypatch):
    """Write a configuration and run a command: accepted, or refused in a sentence. A traceback would pass through."""

    def run(content, data, *arguments):
        monkeypatch.setattr(data_sets, "load", data)
        Path("file.toml").write_text("".join(f"{key} = {toml(item)}\n" for key, item in content.items()), "utf-8")
        code, _, err = rade(*arguments)
        torch.set_num_threads(1)
        assert code in {0, 1, 2, 3}, (code, err)  # and 128 + n, for signals, which nobody sends here
        lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
        assert code == 0 or (len(lines) == 1 and lines[0].startswith("error: ")), err

    return run


@tried
@given(st.dictionaries(name, value, max_size=5), st.lists(option, max_size=5), st.sampled_from(COMMANDS))
def test_configurations_and_command_lines_are_accepted_or_refused(call, content, options, command):
    call(content, enough, "train", "--config", "file.toml")
    call(content, enough, command, *(word for option in options for word in option))


@tried
@given(st.sampled_from(list(METHODS)), st.sampled_from(list(BACKBONES)), st.data())
def test_what_is_accepted_trains_or_fails_in_a_sentence(call, tmp_path, method, net, data):
    """Names that the method has, with any number."""
    names = st.sampled_from(sorted({*METHODS[method].options, "lr", "layers", "patience", "seed", "batch_size"}))
    drawn = data.draw(st.dictionaries(names, st.sampled_from(NUMBERS), max_size=2))
    content = {"method": method, "backbone": net, "hidden": 4, "runs": 1, **drawn, "epochs": 2}
    call(content, small, "train", "--config", "file.toml", "--out", tempfile.mkdtemp(dir=tmp_path))
