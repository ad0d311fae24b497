"""The page on rate rules is what the stored runs give."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "rate_rules.py"


def test_the_page_is_what_the_store_gives():
    """If this fails: `make report`, look at what changed, commit it."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
