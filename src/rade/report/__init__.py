"""Reports from a store of finished runs, without PyTorch: tables beside the paper's, paired tests, pictures.

report = build(read_store(Path("results")), experiments)
write(report, Path("report"))
"""

from rade.report.cells import Stored, read_store
from rade.report.render import headline, write
from rade.report.tables import Report, build

__all__ = ["Report", "Stored", "build", "headline", "read_store", "write"]
