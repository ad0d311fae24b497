"""What RADE's inference does to the flow of information: clean, RADE-OF and RADE-OFS operators side by side."""

from rade.diagnose.diagnosis import Diagnosis, Effort, diagnose
from rade.diagnose.subject import Subject, of_dataset, of_run

__all__ = ["Diagnosis", "Effort", "Subject", "diagnose", "of_dataset", "of_run"]
