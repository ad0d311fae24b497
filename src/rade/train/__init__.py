"""Training: settings from the protocol, one loop for all tasks, runs that resume, models that predict.

settings = rade.train.resolve("cora", "gcn", "rade-of")
record = rade.train.train_run(rade.data.load("cora"), settings, run=0, folder=Path("runs/cora"))
logits = rade.train.load_run("runs/cora").predict(rade.data.load("cora"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.errors import Interrupted as Interrupted
    from rade.errors import RunError as RunError
    from rade.errors import SettingsError as SettingsError
    from rade.train.learner import Context as Context
    from rade.train.learner import Method as Method
    from rade.train.methods import make as make
    from rade.train.protocol import defaults as defaults
    from rade.train.record import RunRecord as RunRecord
    from rade.train.run import load_run as load_run
    from rade.train.run import train as train
    from rade.train.run import train_run as train_run
    from rade.train.settings import Settings as Settings
    from rade.train.settings import resolve as resolve

# Loaded on first use: the store of results reads and writes records without PyTorch.
_NAMES = {
    "errors": ("Interrupted", "RunError", "SettingsError"),
    "train.learner": ("Context", "Method"),
    "train.methods": ("make",),
    "train.protocol": ("defaults",),
    "train.record": ("RunRecord",),
    "train.run": ("load_run", "train", "train_run"),
    "train.settings": ("Settings", "resolve"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"rade.{module}"), name)
    raise AttributeError(f"module 'rade.train' has no attribute '{name}'")
