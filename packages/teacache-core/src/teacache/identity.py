"""Which checkpoint a model holds, and how surely. Pure: names in, identity out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from teacache.errors import OptionError
from teacache.hosts import Names

if TYPE_CHECKING:
    from teacache.calibration import Calibration

Level = Literal["exact", "declared", "unknown"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's identity.

    Attributes:
        checkpoint: the checkpoint's name; None where it is unknown.
        level: ``exact``: the model's own name is the checkpoint's, or the user named it; ``declared``: only a base
            says so, or a LoRA changes the weights; ``unknown``.
        calibration: what is known of that checkpoint; None where nothing is.
    """

    checkpoint: str | None
    level: Level
    calibration: Calibration | None


def identify(names: Names, calibrations: Sequence[Calibration], *, checkpoint: str | None = None) -> Identity:
    """Finds the checkpoint among those that the adapter knows. The model's own name is tested before its base.

    Args:
        names: what the host knows.
        calibrations: what the adapter ships.
        checkpoint: the user's word, a checkpoint or one of its aliases; it overrides everything.

    Raises:
        OptionError: the user named a checkpoint that the adapter does not know.
    """
    if checkpoint is not None:
        named = _find(checkpoint, calibrations)
        if named is None:
            raise OptionError(
                f"checkpoint={checkpoint!r} is not known to this adapter; it knows "
                f"{', '.join(sorted(c.checkpoint for c in calibrations)) or 'none'}. "
                "Leave checkpoint out, or give coefficients=."
            )
        return Identity(named.checkpoint, "exact", named)
    own = None if names.name is None else _find(names.name, calibrations)
    if own is not None:
        return Identity(own.checkpoint, "declared" if names.altered else "exact", own)
    base = None if names.base is None else _find(names.base, calibrations)
    if base is not None:
        return Identity(base.checkpoint, "declared", base)
    return Identity(names.name, "unknown", None)


def _find(name: str, calibrations: Sequence[Calibration]) -> Calibration | None:
    return next((calibration for calibration in calibrations if calibration.matches(name)), None)
