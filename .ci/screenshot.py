"""Pictures a page in Chromium without a window: python .ci/screenshot.py PAGE.html PICTURE.png WIDTHxHEIGHT [dark].

Chromium is the one that the browser tests use; the page is taken as it stands, with no network.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent.parent / "packages/teacache-core/tests/page"


def main(page: str, picture: str, size: str, *scheme: str) -> int:
    """Writes the picture; returns the exit code."""
    sys.path.insert(0, str(TESTS))
    chromium = importlib.import_module("chromium")
    program = chromium.find_browser()
    if program is None:
        sys.stderr.write("there is no Chromium here: apt install chromium, or set CHROMIUM to its program\n")
        return 2
    width, height = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as folder, chromium.browser(program, Path(folder)) as tab:
        tab.go(Path(page), width=width, height=height, dark="dark" in scheme)
        Path(picture).write_bytes(tab.picture())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
