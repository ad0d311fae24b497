"""Put what `rade report` found in results/ into results/tables.md, and its headline table into docs/results.md.

    rade report results --out report --format md
    python docs/refresh.py report

`make report` does both. Run again on the same store it changes no byte, and a test holds it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- headline -->\n).*?(<!-- /headline -->)", re.DOTALL)


def pages(report: Path) -> dict[Path, str]:
    """The content that the page and the tables should have, by file."""
    page = ROOT / "docs" / "results.md"
    table = (report / "headline.md").read_text("utf-8").strip()
    with_table, found = BLOCK.subn(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", page.read_text("utf-8"))
    if found != 1:
        raise SystemExit("error: docs/results.md must hold one block <!-- headline --> ... <!-- /headline -->")
    return {page: with_table, ROOT / "results" / "tables.md": (report / "results.md").read_text("utf-8")}


def main() -> None:
    """Write those that differ."""
    if len(sys.argv) != 2:
        raise SystemExit(f"error: expected the folder of a report; {(__doc__ or '').split(':')[0]}")
    for file, content in pages(Path(sys.argv[1])).items():
        changed = not file.exists() or file.read_text("utf-8") != content
        if changed:
            file.write_text(content, "utf-8")
        print(f"{file.relative_to(ROOT)}: {'written' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
