"""Curves for TensorBoard."""

from pathlib import Path
from typing import Any

from rade.errors import EnvironmentFault, RunError, SettingsError
from rade.train.files import ensure_writable
from rade.train.loop import Progress
from rade.train.record import RunRecord
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
        try:
            str(folder).encode()  # TensorBoard writes the name in UTF-8
            ensure_writable(folder)
        except (RunError, UnicodeEncodeError):
            raise SettingsError(f"cannot write to {folder}; choose another folder with --tensorboard") from None
        except EnvironmentFault as fault:
            raise EnvironmentFault(str(fault).replace("--out", "--tensorboard")) from None
        self.folder = folder
        self.open = SummaryWriter
        self.writer: Any = None

    def begin(self, settings: Settings, run: int) -> None:
        """Remember the log's name."""
        self.log = self.folder / f"{settings.dataset}-{settings.backbone}-{settings.method}-{run}"

    def epoch(self, progress: Progress) -> None:
        """Log an epoch, at once; a resumed run replaces what an interrupted one logged beyond its checkpoint."""
        try:
            if self.writer is None:
                self.writer = self.open(str(self.log), purge_step=progress.epoch)
            for name, value in progress.last.items():
                self.writer.add_scalar(name, value, progress.epoch)
            self.writer.flush()
        except OSError as error:
            raise EnvironmentFault(f"cannot write TensorBoard logs to {self.log}: {error.strerror or error}") from None

    def end(self, result: RunRecord) -> None:
        """Close the log, if the run was not finished before."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
