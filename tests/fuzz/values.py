"""What people and accidents put where a setting belongs."""

import json

from hypothesis import strategies as st

from rade.train.backbones import BACKBONES
from rade.train.methods import METHODS
from rade.train.settings import Settings

# Nothing between 4 and the bounds: such numbers would be taken, and only cost time and memory.
NUMBERS = [-(2**63) - 1, -1, 0, 1, 2, 3, 2**31, 2**63 - 1, 2**64, 10**30, 0.5, 1.0, -0.5, 1e-320, 1e-3, 1e39, 1e308]
WORDS = ["", " ", "none", "rade-of", "csbm", "gcn", "auto", "true", "nan", "inf", "meta", "cpu", "..", "x" * 300, "é±"]
SPECIAL = [float("inf"), float("-inf"), float("nan")]
OPTIONS = sorted({name for entry in METHODS.values() for name in entry.options})
NAMES = sorted((set(Settings.model_fields) - {"options"}) | set(OPTIONS) | {"runs", "protocol", "options"})

scalar = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.sampled_from(SPECIAL), st.booleans())
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
value = st.recursive(scalar | text, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
name = st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), st.from_regex(r"[a-z_]{1,8}", fullmatch=True))
backbone = st.sampled_from(list(BACKBONES))


def toml(content) -> str:
    """A value in TOML."""
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, list):
        return "[" + ", ".join(toml(item) for item in content) + "]"
    if isinstance(content, str):
        return json.dumps(content).replace("\x7f", "\\u007f")
    return str(content)
