"""Put what `rade report` found in results/ into results/tables.md, and the tables of docs/results.md from there.

    rade report results --out report --format md
    python docs/refresh.py report

`make report` does both. Run again on the same store it changes no byte, and a test holds it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def filled(page: str, name: str, table: str) -> str:
    """A page with its block <!-- name --> ... <!-- /name --> filled."""
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    page, found = block.subn(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", page)
    if found != 1:
        raise SystemExit(f"error: docs/results.md must hold one block <!-- {name} --> ... <!-- /{name} -->")
    return page


def pages(report: Path) -> dict[Path, str]:
    """The content that the page and the tables should have, by file."""
    page = ROOT / "docs" / "results.md"
    text = filled(page.read_text("utf-8"), "headline", (report / "headline.md").read_text("utf-8").strip())
    tables = (report / "results.md").read_text("utf-8")
    glance = re.search(r"^## At a glance\n(?:.*\n)*?((?:\|.*\n)+)", tables, re.MULTILINE)
    return {page: filled(text, "glance", glance[1].strip()), ROOT / "results" / "tables.md": tables}


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
