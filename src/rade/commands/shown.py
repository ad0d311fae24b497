"""What is shown while something runs: begun and ended with it."""

from __future__ import annotations

from types import TracebackType


class Shown:
    """Shows nothing; displays that hold the screen override both."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
