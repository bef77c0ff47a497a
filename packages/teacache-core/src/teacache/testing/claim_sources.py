"""Where the project's public figures are kept: one reader for each kind of file. Imports neither mlx nor mflux."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from teacache.calibration import Calibration, load_calibration
from teacache.errors import OptionError
from teacache.tolerance import Tolerance, parse_tolerance

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


def of_calibrations(root: Path) -> Iterator[Claim]:
    """Threshold, polynomial and operating point of each calibration file that has numbers."""
    for path in sorted(root.glob("packages/*/src/*/calibrations/*.toml")):
        one, source = load_calibration(path), path.relative_to(root).as_posix()
        if one.gate is None:
            continue
        recipe, status = one.recipe, _status(one)
        on = one.checkpoint
        if recipe is not None:
            size = f", {recipe.height} x {recipe.width}" if recipe.height else ""
            bits = f", {recipe.quantize} bit" if recipe.quantize else ""
            on += f"; {recipe.steps} steps, guidance {recipe.guidance:g}{size}{bits}"
        measured = _where(one.evidence)
        threshold = "none" if one.gate.threshold is None else f"{one.gate.threshold:g}"
        polynomial = ", ".join(f"{value:.6g}" for value in one.gate.coefficients)
        figure = f"threshold {threshold}; polynomial {polynomial}"
        yield Claim(what="the gate's numbers", figure=figure, on=on, measured=measured, status=status, source=source)
        point = _point(one)
        if point:
            yield Claim(
                what="what the gate does there", figure=point, on=on, measured=measured, status=status, source=source
            )


def of_tolerances(root: Path) -> Iterator[Claim]:
    """Bounds, noise and the smallest planted bug of each tolerance file."""
    for path in sorted(root.glob("packages/*/src/*/tolerance.toml")):
        source = path.relative_to(root).as_posix()
        one = parse_tolerance(path.read_text(encoding="utf-8"), name=source)
        yield from _bounds(one, source)


def _bounds(one: Tolerance, source: str) -> Iterator[Claim]:
    status: Status = "measured" if one.status == "calibrated" else "provisional"
    for bound in one.bounds:
        noise = next(noise for noise in one.noise if noise.comparison == bound.comparison)
        smallest = one.smallest_bug
        figure = "bit-exact" if bound.exact else f"bound {bound.value:.2g}, noise {noise.largest:.2g}"
        yield Claim(
            what=f"{one.adapter}, {bound.comparison}: mean difference of the latents in the worst step",
            figure=f"{figure}; smallest planted bug {smallest.distance.mean_abs:.2g} ({smallest.bug})",
            on=f"{one.evidence.get('model', one.adapter)}, {noise.runs} pairs, {one.evidence['steps']} steps",
            measured=_where(one.evidence),
            status=status,
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


def _status(calibration: Calibration) -> Status:
    known: Mapping[str, Status] = {"published": "published elsewhere", "calibrated": "measured"}
    return known.get(calibration.status, "provisional")


def _point(calibration: Calibration) -> str:
    """What is said of the gate at its threshold."""
    evidence, gate, words = calibration.evidence, calibration.gate, []
    sweep = evidence.get("sweep_threshold")
    if isinstance(sweep, tuple) and gate is not None and gate.threshold in sweep:
        at = sweep.index(gate.threshold)
        rows = {name: evidence.get(f"sweep_{name}") for name in ("reused", "ssim", "worst_ssim", "psnr")}
        found = {name: row[at] for name, row in rows.items() if isinstance(row, tuple)}
        words += [
            f"{name.replace('_', ' ')} {value:.4g} (mean)" for name, value in found.items() if name != "worst_ssim"
        ]
        words += [f"worst SSIM {found['worst_ssim']:.4g}"] if "worst_ssim" in found else []
    for name, says in (
        ("reused", "{} reused"),
        ("speedup", "{}x"),
        ("ssim", "SSIM {}"),
        ("ssim_floor", "SSIM floor {}"),
    ):
        if name in evidence:
            words.append(says.format(evidence[name]))
    return ", ".join(words)


def _where(evidence: Mapping[str, Any]) -> str:
    versions = evidence.get("versions")
    listed = (
        versions
        if isinstance(versions, tuple)
        else [f"{key} {evidence[key]}" for key in ("mlx", "mflux") if key in evidence]
    )
    words = [evidence.get("source"), evidence.get("machine"), evidence.get("date"), ", ".join(map(str, listed))]
    return "; ".join(str(word) for word in words if word)


def _toys(name: str) -> str:
    return "all four toys" if name == "all" else f"{name} toy"
