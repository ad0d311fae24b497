"""How much is tried: a fixed small share in every test run, as many as RADE_FUZZ says with `make fuzz`."""

import os

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("RADE_FUZZ", "0"))
settings.register_profile(
    "rade",
    max_examples=EXAMPLES or 12,
    derandomize=EXAMPLES == 0,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("rade")
