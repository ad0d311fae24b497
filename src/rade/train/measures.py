"""What of a finished run a table can compare, and how its numbers are shown. Without torch."""

from dataclasses import dataclass

SCORE = "score"


@dataclass(frozen=True)
class Measure:
    """Numbers of a table: shown times a factor, with so many digits, in words."""

    scale: float
    digits: int
    words: str


MEASURES = {
    SCORE: Measure(100, 2, "%"),
    "seconds_per_epoch": Measure(1, 3, "seconds per epoch"),
    "log_loss": Measure(1, 3, "log-loss in nats, less is better"),
    "calibration_error": Measure(100, 2, "calibration error in %, less is better"),
    "scaled_log_loss": Measure(1, 3, "log-loss in nats after temperature scaling, less is better"),
    "scaled_calibration_error": Measure(100, 2, "calibration error in % after temperature scaling, less is better"),
}
