import pytest
from tests.report.synthetic import TOML

from command_line import caller


@pytest.fixture
def rade(capsys, tmp_path, monkeypatch):
    """Call `rade ARGUMENTS` in a folder that holds main.toml alone; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.toml").write_text(TOML)
    return caller(capsys)
