"""The root of every error that is meant for the user."""


class RadeError(Exception):
    """One clear sentence for the user: what was expected, what came, and the way out."""
