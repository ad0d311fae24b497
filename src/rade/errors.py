"""The roots of every error that is meant for the user; their `code` is the exit code of the command line."""

import errno

# What the machine refuses, not what the user wrote; a system may lack some of them.
_MACHINE = (
    "ENOSPC", "EDQUOT", "EFBIG", "EACCES", "EPERM", "EROFS", "EIO", "ENOMEM", "EMFILE", "ENFILE", "ESTALE", "ETIMEDOUT"
)  # fmt: skip


class RadeError(Exception):
    """One clear sentence for the user: what was expected, what came, and the way out."""

    code = 2


class EnvironmentFault(RadeError):
    """The machine refuses: disk, memory, permissions."""

    code = 3


def is_machine(error: OSError) -> bool:
    """Whether the machine refused, rather than a path being wrong.

    >>> is_machine(OSError(errno.ENOSPC, "No space left on device")), is_machine(FileNotFoundError(errno.ENOENT, ""))
    (True, False)
    """
    return errno.errorcode.get(error.errno or 0) in _MACHINE
