"""Curves for TensorBoard."""

from pathlib import Path

from rade.train.errors import SettingsError
from rade.train.progress import Progress
from rade.train.run import Result
from rade.train.settings import Settings


class TensorBoard:
    """Writes every epoch's values, one TensorBoard run per training run."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingsError(
                "--tensorboard needs the tensorboard package; install it with pip install 'rade-gnn[tensorboard]'"
            ) from None
        self.folder = folder
        self.open = SummaryWriter

    def begin(self, settings: Settings, run: int) -> None:
        """Start a log."""
        name = f"{settings.dataset}-{settings.backbone}-{settings.method}-{run}"
        self.writer = self.open(str(self.folder / name))

    def epoch(self, progress: Progress) -> None:
        """Log an epoch."""
        for name, value in progress.last.items():
            self.writer.add_scalar(name, value, progress.epoch)

    def end(self, result: Result) -> None:
        """Close the log."""
        self.writer.close()
