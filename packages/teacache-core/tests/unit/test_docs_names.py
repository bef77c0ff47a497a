"""Names in the running text of README and docs: options of `wrap`, Python names and files exist."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import teacache

ROOT = Path(__file__).parents[4]
if not (ROOT / ".ci/doc_commands.py").is_file():
    pytest.skip("the repository is not there", allow_module_level=True)

spec = importlib.util.spec_from_file_location("doc_commands", ROOT / ".ci/doc_commands.py")
assert spec is not None and spec.loader is not None
docs: Any = importlib.util.module_from_spec(spec)
sys.modules["doc_commands"] = docs
spec.loader.exec_module(docs)

SPANS = {
    (path.relative_to(ROOT).as_posix(), span)
    for path in docs.pages()
    for span in re.findall(r"`([^`\n]+)`", docs._FENCE.sub("", path.read_text(encoding="utf-8")))
}
SOURCE = ROOT / "packages/teacache-core/src/teacache"
MADE = {"teacache-demo.png", "build/dist", "docs/performance.json", "docs/peers.json"}
"""Files that come out of what a page tells to run."""

HOMES = (ROOT, SOURCE, SOURCE.parents[1], *ROOT.glob("packages/teacache-*/src/teacache_*"), ROOT / "docs/template")


def calls() -> list[tuple[str, ast.Call]]:
    """The calls of `wrap` that stand in sentences."""
    found = []
    for page, span in sorted(SPANS):
        if not re.match(r"(teacache\.)?wrap\(", span):
            continue
        found.append((f"{page}: {span}", ast.parse(span.replace("[...]", "None"), mode="eval").body))
    assert found
    return [(name, call) for name, call in found if isinstance(call, ast.Call)]


@pytest.mark.parametrize(("name", "call"), [pytest.param(name, call, id=name) for name, call in calls()])
def test_wrap_takes_these_options(name: str, call: ast.Call) -> None:
    """Red when a sentence tells to pass an option that `wrap` does not have."""
    assert {keyword.arg for keyword in call.keywords} <= set(inspect.signature(teacache.wrap).parameters)


@pytest.mark.parametrize(
    "name", sorted({span for _, span in SPANS if re.fullmatch(r"teacache(\.\w+)+(\(.*\))?", span)})
)
def test_the_name_can_be_imported(name: str) -> None:
    """Red when a page names a function, class or module that was moved."""
    words = re.sub(r"\(.*", "", name).split(".")
    for end in range(len(words), 0, -1):
        try:
            module = importlib.import_module(".".join(words[:end]))
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("teacache"):
                return  # of mflux, which the core's tests do not need
            continue
        assert reduce(getattr, words[end:], module) is not None
        return


@pytest.mark.parametrize(
    ("page", "name"),
    sorted((page, span) for page, span in SPANS if re.fullmatch(r"\.?[\w*/.-]+(\.(py|toml|md|txt|json|png)|/)", span)),
)
def test_the_file_is_there(page: str, name: str) -> None:
    """Red when a page sends its reader to a file that was moved or renamed."""
    if name in MADE:
        return
    pattern = name.rstrip("/").replace("NAME", "*")
    within = (ROOT / "packages").rglob(name) if "/" not in name else ()
    assert any(True for _ in within) or any(list(home.glob(pattern)) for home in HOMES), page


@pytest.mark.parametrize(
    "page", [path for path in docs.pages() if path.name == "README.md"], ids=lambda path: path.parent.name
)
def test_links_of_the_readmes_lead_somewhere(page: Path) -> None:
    """Red when a README links to a page or shows a picture that was moved; the site's build checks all other pages."""
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
