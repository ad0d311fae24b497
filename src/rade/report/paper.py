"""What the report needs to know of a table of the paper; `rade.experiment.Experiment` has it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Published(Protocol):
    """Mean and standard deviation as the paper prints them: percent, or seconds."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def std(self) -> float:
        """The standard deviation."""


class Row(Protocol):
    """One line of a table: a method, its settings on top of the protocol, what is searched, what the paper has."""

    @property
    def name(self) -> str:
        """What the line is called."""

    @property
    def method(self) -> str:
        """The method's name in the settings."""

    @property
    def backbones(self) -> Sequence[str]:
        """The backbones that the line is run with."""

    @property
    def search(self) -> Mapping[str, Sequence[Any]]:
        """Settings chosen on validation data, and their candidates."""

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        """Every combination of the search; a single empty one where nothing is searched."""

    @property
    def published(self) -> Mapping[str, Mapping[str, Published]]:
        """Backbone → data set → numbers."""

    def settings_on(self, dataset: str) -> Mapping[str, Any]:
        """The flat settings on one data set, on top of the protocol's."""


class Experiment(Protocol):
    """A table: rows by data sets, trained under one protocol."""

    @property
    def name(self) -> str:
        """The short name."""

    @property
    def title(self) -> str:
        """The heading."""

    @property
    def label(self) -> str:
        """Of the paper's table; empty for experiments beyond it."""

    @property
    def protocol(self) -> str:
        """Where settings come from."""

    @property
    def seeds(self) -> int:
        """Runs of a cell; data sets with folds run all folds."""

    @property
    def datasets(self) -> Sequence[str]:
        """The columns."""

    @property
    def rows(self) -> Sequence[Row]:
        """The lines."""

    @property
    def measure(self) -> str:
        """`score`, or `seconds_per_epoch`."""

    @property
    def note(self) -> str:
        """What a reader must know beside the numbers."""
