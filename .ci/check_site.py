"""Looks into the built site: no page, style sheet or font loads anything from another server. Links may lead there.

python .ci/check_site.py build/site
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADING = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}
NOT_LOADED = {"canonical", "prev", "next", "alternate", "author", "license"}
_IN_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')]+)")


class Loads(HTMLParser):
    """Collects the addresses that a browser would fetch for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes what a tag loads, and what its style does."""
        given = {name: value or "" for name, value in attrs}
        address = given.get(LOADING.get(tag, ""), "")
        if address and not (tag == "link" and set(given.get("rel", "").split()) <= NOT_LOADED):
            self.found.append(address)
        self.found += _IN_CSS.findall(given.get("style", ""))
        if "mermaid" in given.get("class", "").split():
            self.found.append("https://unpkg.com/mermaid, which the theme loads to draw this block")

    def handle_data(self, data: str) -> None:
        """Takes what a style element on the page loads."""
        self.found += _IN_CSS.findall(data) if self.rawdata and self.cdata_elem == "style" else []


def foreign(site: Path) -> list[str]:
    """One line for each page and address of another server."""
    lines = []
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            page = Loads()
            page.feed(path.read_text(encoding="utf-8"))
            found = page.found
        elif path.suffix == ".css":
            found = _IN_CSS.findall(path.read_text(encoding="utf-8"))
        else:
            continue
        lines += [f"{path.relative_to(site)}: {one}" for one in found if re.match(r"(?:[a-z]+:)?//", one)]
    return lines


def main(arguments: list[str]) -> int:
    """Checks one site."""
    site = Path(arguments[0])
    if not (site / "index.html").is_file():
        sys.stderr.write(f"There is no site in {site}. Run: mkdocs build -f .ci/mkdocs.yml\n")
        return 1
    found = foreign(site)
    for line in found:
        sys.stderr.write(f"loaded from another server: {line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
