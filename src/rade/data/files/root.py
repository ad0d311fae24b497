"""Where raw files and processed tensors live."""

import os
from pathlib import Path

VARIABLE = "RADE_DATA"


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The data root: the argument, else the environment variable RADE_DATA, else ``data/``.

    >>> data_root("elsewhere").name
    'elsewhere'
    """
    return Path(root or os.environ.get(VARIABLE) or "data").expanduser()
