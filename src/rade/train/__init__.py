"""Training: settings from the protocol, one loop for all tasks, runs that resume, models that predict.

settings = rade.train.resolve("cora", "gcn", "rade-of")
record = rade.train.train_run(rade.data.load("cora"), settings, run=0, folder=Path("runs/cora"))
logits = rade.train.load_run("runs/cora").predict(rade.data.load("cora"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.errors import Interrupted, RunError, SettingsError
    from rade.train.learner import Context, Method
    from rade.train.methods import make
    from rade.train.protocol import defaults
    from rade.train.record import RunRecord
    from rade.train.run import load_run, train, train_run
    from rade.train.settings import Settings, resolve

# Loaded on first use: the store of results reads and writes records without PyTorch.
_HOMES = {
    "rade.errors": ("Interrupted", "RunError", "SettingsError"),
    "rade.train.learner": ("Context", "Method"),
    "rade.train.methods": ("make",),
    "rade.train.protocol": ("defaults",),
    "rade.train.record": ("RunRecord",),
    "rade.train.run": ("load_run", "train", "train_run"),
    "rade.train.settings": ("Settings", "resolve"),
}
_HOME = {name: home for home, members in _HOMES.items() for name in members}

__all__ = [
    "Context",
    "Interrupted",
    "Method",
    "RunError",
    "RunRecord",
    "Settings",
    "SettingsError",
    "defaults",
    "load_run",
    "make",
    "resolve",
    "train",
    "train_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rade.train' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
