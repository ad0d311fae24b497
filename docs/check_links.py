"""Every link between the built pages, and every anchor, leads somewhere.

    python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Called for every element."""
        found = dict(attributes)
        self.links += [target for name in ("href", "src") if (target := found.get(name))]
        self.anchors |= {found["id"] or ""} if "id" in found else set()


def broken(root: Path) -> tuple[int, list[str]]:
    """How many local links there are, and those that lead nowhere; other sites are not asked."""
    pages = {file.resolve(): Page(file) for file in root.rglob("*.html")}
    count, wrong = 0, []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            lost = target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].anchors
            if not target.exists() or lost:
                wrong.append(f"{file.relative_to(root.resolve())}: {link}")
    return count, wrong


def main() -> None:
    """Exit code 1 and a line for each broken link."""
    count, wrong = broken(Path(sys.argv[1]))
    for line in wrong:
        print(line)
    print(f"{count} links, {len(wrong)} broken")
    raise SystemExit(1 if wrong or count == 0 else 0)


if __name__ == "__main__":
    main()
