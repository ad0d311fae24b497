"""Numbers as text, the same in every format."""

from rade.report.paper import Published
from rade.statistics import Spread, number


def interval(low: float | None, high: float | None) -> str:
    """Both ends in brackets."""
    return f"[{number(low)}, {number(high)}]"


def mean_std(value: Spread | Published, digits: int = 2) -> str:
    """`mean ± std`; the mean alone where there is no deviation."""
    text = number(value.mean, digits)
    return text if value.std is None else f"{text} ± {number(value.std, digits)}"


def p_value(value: float | None) -> str:
    """Three digits; smaller ones as a bound.

    >>> p_value(0.0004), p_value(0.04), p_value(None)
    ('< 0.001', '0.040', '–')
    """
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(42.0), duration(4000.0), duration(200000.0)
    ('42 s', '1 h 7 min', '55 h 33 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def many(count: int, what: str) -> str:
    """A count with its noun.

    >>> many(1, "run"), many(12000, "run")
    ('1 run', '12,000 runs')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def seeds(needed: int | None, effect: float | None, folds: int, rough: bool = False) -> str:
    """Seeds for 80 % power in a table's field.

    >>> seeds(34, 0.5, 0), seeds(34, 0.5, 0, rough=True)
    ('34', '≈ 34')
    """
    if folds or effect is None:
        return "–"
    return "> 10,000" if needed is None else f"{'≈ ' if rough else ''}{needed:,}"
