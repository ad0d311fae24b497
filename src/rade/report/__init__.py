"""Reports from a store of finished runs, without PyTorch: tables beside the paper's, paired tests, pictures.

runs, problems = read_folder(Path("store"))
write(build(runs, experiments, problems), Path("report"))
"""

from rade.report.build import Report, build
from rade.report.folder import read_folder
from rade.report.markdown import headline
from rade.report.rows import read_rows
from rade.report.write import write

__all__ = ["Report", "build", "headline", "read_folder", "read_rows", "write"]
