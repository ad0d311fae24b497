"""Training: settings from the paper's protocol, one loop for all tasks, runs that resume, models that predict.

settings = rade.train.resolve("cora", "gcn", "rade-of")
result = rade.train.train_run(rade.data.load("cora"), settings, run=0, folder=Path("runs/cora"))
logits = rade.train.load_run("runs/cora").predict(rade.data.load("cora"))
"""

from rade.train.errors import Interrupted, RunError, SettingsError
from rade.train.result import Result
from rade.train.run import load_run, train_run
from rade.train.settings import Settings, defaults, resolve
from rade.train.summary import Summary, summarise

__all__ = [
    "Interrupted",
    "Result",
    "RunError",
    "Settings",
    "SettingsError",
    "Summary",
    "defaults",
    "load_run",
    "resolve",
    "summarise",
    "train_run",
]
