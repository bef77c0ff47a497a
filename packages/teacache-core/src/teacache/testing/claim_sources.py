"""Where the project's public figures are kept: one reader for each kind of file. Imports neither mlx nor mflux."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from teacache.errors import OptionError

Status: TypeAlias = Literal["measured", "provisional", "published elsewhere"]

README = "README.md"
MEASURED = "## What was measured"
FIELDS = ("what", "figure", "on", "measured", "status", "source")


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One public figure.

    Attributes:
        what: what is claimed.
        figure: the figure, with its unit.
        on: what it was measured on: model, settings.
        measured: by whom, where and when.
        status: "measured" by this project; "provisional", when something of the evidence is missing; "published
            elsewhere", other people's measurement.
        source: the file that the figure is kept in, from the repository's root.
    """

    what: str
    figure: str
    on: str
    measured: str
    status: Status
    source: str


def of_readme(root: Path) -> Iterator[Claim]:
    """The table is the data: its rows are what is claimed, and the sentence above says where and when."""
    _, _, section = (root / README).read_text(encoding="utf-8").partition(f"{MEASURED}")
    lines = section.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith("|")), None)
    if start is None:
        raise OptionError(f"{README} has no table below {MEASURED!r}: what it claims could not be read.")
    where = " ".join(line.strip() for line in lines[1:start] if line.strip()).rstrip(":")
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        what, on, figure = [cell.strip() for cell in line.strip("|").split("|")][:3]
        yield Claim(what=what, figure=figure, on=on, measured=where, status="measured", source=README)


def of_reports(root: Path) -> Iterator[Claim]:
    """Every JSON file below docs/ with a list `claims`; the status of a benchmark is its verdict."""
    for path in sorted((root / "docs").glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for entry in data.get("claims", []) if isinstance(data, dict) else []:
            yield _claim(entry, path.relative_to(root).as_posix())


def of_frontier(root: Path) -> Iterator[Claim]:
    """What the frontier benchmark found of plans."""
    path = root / "docs/frontier.json"
    if not path.exists():
        return
    data = json.loads(path.read_text(encoding="utf-8"))
    settings, made_with = data["settings"], f"{data['date']}; {data['made_with']}"
    for row in data["verdicts"]:
        on = f"{_toys(row['toy'])}, {row['pairs']} pairs, guidance {settings['guidance']:g}"
        yield Claim(
            what=f"plan, {row['asked']} of {settings['steps']} steps computed, against as many steps",
            figure=f"{row['gain']:+.1f} dB in the mean, better in {row['wins']} of {row['pairs']} pairs; over the gate "
            f"{row['over_gate']:+.1f} dB, over the gate with linear residuals {row['over_linear']:+.1f} dB",
            on=on,
            measured=made_with,
            status="measured",
            source="docs/frontier.json",
        )
    for row in data.get("transferred", []):
        yield Claim(
            what=f"plan from the kernel of {settings['steps']} steps, {row['asked']} of {row['steps']} steps computed, "
            "against as many steps",
            figure=f"{row['gain']:+.1f} dB in the mean, better in {row['wins']} of {row['pairs']} pairs",
            on=f"{_toys(row['toy'])}, {row['pairs']} pairs, guidance {settings['guidance']:g}",
            measured=made_with,
            status="measured",
            source="docs/frontier.json",
        )


_CARD = {
    "parameters": re.compile(r"[\d.]+ million parameters"),
    "steps": re.compile(r"(?:about )?\d[\d,]* steps"),
    "loss": re.compile(r"(?:mean|last) loss[^.]*?\d+\.\d+", re.IGNORECASE),
}


def of_cards(root: Path) -> Iterator[Claim]:
    """How large each toy is, how long it was trained, and its loss: the first of each that its card says."""
    for path in sorted(root.glob("packages/*/src/*/toy_card.md")):
        source = path.relative_to(root).as_posix()
        text = " ".join(path.read_text(encoding="utf-8").split())
        found = {name: pattern.search(text) for name, pattern in _CARD.items()}
        lacks = [name for name, match in found.items() if match is None]
        if lacks:
            raise OptionError(f"{source} does not say {', '.join(lacks)}: every card of a toy says them.")
        yield Claim(
            what=f"{text.removeprefix('# ').partition(' A small')[0]}: size and training",
            figure=", ".join(match[0] for match in found.values() if match is not None),
            on="pictures drawn by `teacache.testing.toys.scenes`",
            measured="on the CPU; the card says by what, and what the toy cannot do",
            status="measured",
            source=source,
        )


def of_text(root: Path) -> Iterator[Claim]:
    """Figures in running text: docs/claims.toml says where and how each was measured, and quotes the text."""
    path = root / "docs/claims.toml"
    if not path.exists():
        return
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["claims"]:
        claim = _claim(entry, path.relative_to(root).as_posix())
        text = " ".join((root / claim.source).read_text(encoding="utf-8").split())
        if entry["quote"] not in text:
            raise OptionError(
                f"docs/claims.toml quotes {claim.source}: {entry['quote']!r}, which does not stand there any more. "
                "Correct the entry, or take it out."
            )
        yield claim


def _claim(entry: Mapping[str, Any], source: str) -> Claim:
    lacks = [field for field in FIELDS[:-1] if not str(entry.get(field, "")).strip()]
    if lacks:
        raise OptionError(f"{source}: the claim {entry.get('what', '?')!r} does not say {', '.join(lacks)}.")
    given = {field: str(entry[field]) for field in FIELDS if field in entry}
    status = next((known for known in get_args(Status) if known == given["status"]), None)
    if status is None:  # a benchmark's verdict on its own target
        given["figure"] += f" ({given['status']})"
    return Claim(**{"source": source, **given, "status": status or "measured"})


def _toys(name: str) -> str:
    return "all four toys" if name == "all" else f"{name} toy"
