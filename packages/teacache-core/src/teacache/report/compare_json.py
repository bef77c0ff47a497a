"""A comparison of pictures as JSON, without the pictures. Imports neither mlx nor mflux."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from teacache.report.compare import Comparison, Likeness, Picture
from teacache.report.compare_totals import Total, plain_total, summaries

SCHEMA = 1
"""Version of what `to_json` writes. A field that changes its meaning, or goes, makes another version."""


def to_json(comparison: Comparison) -> str:
    """Returns everything but the pictures as strict JSON: a PSNR of equal pictures, which is infinite, is null."""
    return json.dumps(as_data(comparison), indent=2, allow_nan=False) + "\n"


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Returns the same as plain types."""
    return {
        "schema": SCHEMA,
        "name": comparison.name,
        "steps": comparison.steps,
        "command": comparison.command,
        "made_with": dict(comparison.made_with),
        "plain": _total(plain_total(comparison)),
        "settings": [
            {
                "setting": summary.setting,
                "cached": _total(summary.cached),
                "fewer_steps": None if summary.fewer is None else _total(summary.fewer),
                "won": summary.won,
                "lost": summary.lost,
            }
            for summary in summaries(comparison)
        ],
        "cases": [
            {
                "prompt": case.prompt,
                "seed": case.seed,
                "plain": _picture(case.plain),
                "trials": [
                    {
                        "setting": trial.setting,
                        "cached": _picture(trial.cached),
                        "fewer_steps": None if trial.fewer is None else _picture(trial.fewer),
                    }
                    for trial in case.trials
                ],
            }
            for case in comparison.cases
        ],
    }


def _picture(picture: Picture) -> dict[str, Any]:
    return {
        "label": picture.label,
        "width": picture.image.width,
        "height": picture.image.height,
        "seconds": picture.seconds,
        "loop_seconds": picture.loop_seconds,
        **_likeness(picture.likeness),
        "timeline": picture.run.timeline,
        "run": _finite(picture.run.to_dict()),
    }


def _finite(value: Any) -> Any:
    """The same with null for what is no number: a model that breaks gives such changes, and strict JSON has none."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _total(total: Total) -> dict[str, Any]:
    data = asdict(total)
    del data["likeness"]
    return data | _likeness(total.likeness)


def _likeness(likeness: Likeness | None) -> dict[str, Any]:
    if likeness is None:
        return {"ssim": None, "psnr": None, "equal": None}
    equal = math.isinf(likeness.psnr)
    return {"ssim": likeness.ssim, "psnr": None if equal else likeness.psnr, "equal": equal}
