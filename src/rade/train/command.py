"""The command that repeats one run."""

import shlex
from typing import Any

from rade.train.protocol import PROTOCOLS
from rade.train.settings import Settings, all_options, resolve

# Named by options of their own, or without influence on a single CPU's numbers.
_ELSEWHERE = {"dataset", "backbone", "method", "options", "seed", "threads", "device"}


def repeat_command(settings: Settings, run: int, threads: int) -> str:
    """`rade train …` with all that differs from the protocol's defaults, for this run alone.

    >>> repeat_command(resolve("mutag", "gin", "drop-edge", rate=0.3, seed=1000), 7, threads=1)
    'rade train --dataset mutag --backbone gin --method drop-edge --protocol released --run 7 --seed 1000 \
--threads 1 --set rate=0.3'
    """
    source = settings.protocol or PROTOCOLS[0]
    names = (settings.dataset, settings.backbone, settings.method)
    base = resolve(*names, source, layers=settings.layers)  # fan-outs follow the depth
    there, here = _flat(base), _flat(settings)
    here["layers"], there["layers"] = settings.layers, resolve(*names, source).layers
    words = ["rade", "train"]
    options = dict(zip(("dataset", "backbone", "method", "protocol"), (*names, source)))
    for name, value in {**options, "run": run, "seed": settings.seed, "threads": threads}.items():
        words += [f"--{name}", str(value)]
    if settings.device != "cpu":
        words += ["--device", settings.device]
    for name, value in here.items():
        if name not in there or value != there[name]:
            words += ["--set", f"{name}={_toml(value)}"]
    return shlex.join(words)


def _flat(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude=_ELSEWHERE) | all_options(settings)


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
