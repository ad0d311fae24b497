"""Reports from a store of finished runs, without PyTorch: tables beside the paper's, paired tests, pictures.

report = build(open_store("results").records(), experiments)
write(report, Path("report"))
"""

from rade.report.render import headline, write
from rade.report.tables import Report, build

__all__ = ["Report", "build", "headline", "write"]
