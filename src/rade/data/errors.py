"""The error of everything that has to do with data sets."""

from rade.errors import RadeError


class DataError(RadeError, ValueError):
    """A data set, a raw file or a split that cannot be used, said in one sentence."""
