"""The claims of calibration and tolerance files. Imports neither mlx nor mflux."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from teacache.calibration import Calibration, load_calibration
from teacache.testing.claim_sources import Claim, Status
from teacache.tolerance import Tolerance, parse_tolerance


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
