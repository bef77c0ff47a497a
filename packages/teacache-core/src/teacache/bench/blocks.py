"""Generated blocks within hand-written pages. Imports nothing heavy."""

from __future__ import annotations

import re
from pathlib import Path

from teacache.errors import OptionError


def with_block(page: str, name: str, body: str) -> str:
    """Returns the page with what stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` replaced.

    Raises:
        OptionError: the page has no such place, or several.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise OptionError(f"The page has no place for {name!r}: it needs one line {begin} and one line {end} below it.")
    inside = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    return inside.sub(lambda found: f"{found[1]}{body.strip()}\n{found[2]}", page)


def page_of(path: Path, title: str, name: str) -> str:
    """Returns the page that is to be filled: the one that is there, or a new one with this single place."""
    if path.exists():
        return path.read_text(encoding="utf-8")
    return f"# {title}\n\n<!-- begin {name} -->\n<!-- end {name} -->\n"
