"""The paper's runtime table as ratios, to stand beside ours."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

from rade.bench.cases import Case

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).parents[1] / "experiment" / "tables" / "runtime.toml"  # facts of the paper, not its runs


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    return {row["method"]: row["published"] for row in rows}


def published(method: str, case: Case) -> dict[str, float]:
    """How many plain epochs one epoch of a method takes in the paper, where its table has both; on its machine."""
    rows = _rows()
    found = [rows.get(name, {}).get(case.backbone, {}).get(case.data) for name in (method, "none")]
    if None in found:
        return {}
    (seconds, _), (plain, _) = found
    return {"x plain in the paper": seconds / plain}
