"""Which runs a grid is doing, for other grids on the same store to see: a lock per run, while it is under way."""

from contextlib import ExitStack

from rade.experiment.store import WORK, Store
from rade.train.lock import Locked, holding


class Claims:
    """The runs that this grid has taken. A grid that was killed loses its claims, as `rade.train.lock` tells."""

    def __init__(self, store: Store) -> None:
        self.folder = store.folder / WORK
        self.held: dict[str, ExitStack] = {}

    def take(self, key: str) -> str:
        """Claim a run: empty if it is ours now, else who has it."""
        claim = ExitStack()
        try:
            claim.enter_context(holding(self.folder / f"{key}.lock"))
        except Locked as refusal:
            return refusal.by
        self.held[key] = claim
        return ""

    def release(self, key: str) -> None:
        """Give a run back that is done, or that somebody else may try."""
        if key in self.held:
            self.held.pop(key).close()

    def close(self) -> None:
        """Give all back."""
        for key in list(self.held):
            self.release(key)
