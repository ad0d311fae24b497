"""Reports from a store of finished runs: tables beside the paper's, paired tests, pictures; without PyTorch.

report = rade.report.build(*rade.report.read_folder(folder)[:1], experiments)
"""
