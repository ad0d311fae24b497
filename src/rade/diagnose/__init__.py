"""What RADE's inference does to the flow of information: clean, RADE-OF and RADE-OFS operators side by side."""

from rade.diagnose.diagnosis import Diagnosis, Subject, diagnose, subject_of

__all__ = ["Diagnosis", "Subject", "diagnose", "subject_of"]
