"""A grid killed (−9) at random times against an undisturbed one: equal keys, scores and curves, no file torn.

RADE_DATA=data python benchmarks/killed_grid.py --out /tmp/killed --kills 5 --epochs 12
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SAME = ("val", "test", "best_epoch", "epochs", "history", "quality", "variance")


def command(store: Path, epochs: int) -> list[str]:
    words = "node-gcn --datasets cora,citeseer --seeds 3 --workers 2 --checkpoint-every 3 --json"
    return [
        sys.executable,
        "-m",
        "rade",
        "reproduce",
        *words.split(),
        "--set",
        f"epochs={epochs}",
        "--store",
        str(store),
    ]


def undisturbed(store: Path, epochs: int) -> tuple[dict[str, Any], float]:
    started = time.monotonic()
    done = subprocess.run(command(store, epochs), capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.monotonic() - started


def killed(store: Path, epochs: int, seconds: float) -> None:
    """The command and all its workers, after some seconds."""
    with subprocess.Popen(
        command(store, epochs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)


def rows(store: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in store.glob("*.json")}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--kills", type=int, default=5)
    arguments.add_argument("--epochs", type=int, default=12)
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    calm, disturbed, dice = asked.out / "calm", asked.out / "killed", random.Random(asked.seed)
    _, span = undisturbed(calm, asked.epochs)
    for _ in range(asked.kills):
        seconds = dice.uniform(0.12, 0.3) * span
        killed(disturbed, asked.epochs, seconds)
        print(f"killed after {seconds:.0f} s: {len(rows(disturbed))} rows", flush=True)
    end, _ = undisturbed(disturbed, asked.epochs)
    one, other = rows(calm), rows(disturbed)
    equal = one.keys() == other.keys() and all(one[key][name] == other[key][name] for key in one for name in SAME)
    left = [path.name for path in disturbed.glob(".*.json.*")]
    print(f"{len(one)} and {len(other)} rows, equal: {equal}; failures {end['failures']}; half-written files: {left}")
    sys.exit(0 if equal and not left else 1)


if __name__ == "__main__":
    main()
