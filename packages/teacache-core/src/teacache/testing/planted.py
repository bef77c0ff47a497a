"""Bugs worth catching, to plant and to take out again. Each is claimed by one oracle, which must see it.

How each is planted: `teacache.testing.planting`. Imports mlx; never mflux.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from teacache.errors import OptionError
from teacache.testing import planting

Need = Literal["any", "branches", "other tokens", "controlnet", "compile", "tail conditioning", "callbacks"]


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug to plant.

    Attributes:
        name: what it is called in tables and tolerance files.
        says: what goes wrong.
        oracle: which oracle claims it.
        part: of the equivalence oracle; empty for the others.
        needs: what a family must have for the bug to be possible.
        plant: plants it, and takes it out.
        seen_by: the check of the oracle that must fail, with figures that are numbers. Another failure, or latents that
            are NaN or of another shape, is a crash in disguise and no catch.
        moves_latents: it changes the latents of a run, so that its distance can be measured.
    """

    name: str
    says: str
    oracle: Literal["neutrality", "equivalence", "quality"]
    plant: Callable[[], AbstractContextManager[None]]
    seen_by: str
    part: str = ""
    needs: Need = "any"
    moves_latents: bool = True


def find_bug(name: str) -> Bug:
    """Returns the bug of that name."""
    for bug in BUGS:
        if bug.name == name:
            return bug
    raise OptionError(f"There is no planted bug {name!r}; there are {', '.join(bug.name for bug in BUGS)}.")


BUGS: tuple[Bug, ...] = (
    Bug(
        name="residual one step too old",
        says="The residual of the last computed step but one is reused.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        plant=lambda: planting.reuse_with(planting.too_old),
    ),
    Bug(
        name="residual added twice",
        says="tokens + 2 * residual.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        plant=lambda: planting.reuse_with(planting.twice),
    ),
    Bug(
        name="branches swapped",
        says="The negative branch gets the positive one's residual, and the other way round.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        needs="branches",
        plant=lambda: planting.reuse_with(planting.other_branch),
    ),
    Bug(
        name="a block left out",
        says="The traced path runs all blocks but the last.",
        oracle="equivalence",
        seen_by="computed, as the pipeline runs",
        part="computed",
        plant=planting.block_left_out,
    ),
    Bug(
        name="other tokens in the residual",
        says="Text or reference tokens get a residual too, where they should pass through.",
        oracle="equivalence",
        seen_by="reused, what the tail gets",
        part="reused",
        needs="other tokens",
        plant=planting.all_tokens,
        moves_latents=False,
    ),
    Bug(
        name="previous timestep in the tail",
        says="On a reused step the tail is modulated for the last computed one.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        needs="tail conditioning",
        plant=planting.tail_of_the_step_before,
    ),
    Bug(
        name="leaked class",
        says="restore() leaves the traced class on the transformer.",
        oracle="neutrality",
        seen_by="threshold 0: given back",
        plant=planting.class_left,
        moves_latents=False,
    ),
    Bug(
        name="leaked callback",
        says="restore() leaves a callback registered.",
        oracle="neutrality",
        seen_by="threshold 0: given back",
        needs="callbacks",
        plant=planting.callback_left,
        moves_latents=False,
    ),
    Bug(
        name="decision frozen by compile",
        says="A compiled function repeats what its first step did, whatever is decided.",
        oracle="equivalence",
        seen_by="reused, compiled against eager",
        part="compiled",
        needs="compile",
        plant=planting.frozen,
    ),
    Bug(
        name="cache that never engages",
        says="Every step is computed.",
        oracle="quality",
        seen_by="reused steps in the band",
        plant=planting.never,
    ),
    Bug(
        name="ControlNet sample on a reused step",
        says="The sample is in the residual, and added again.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        needs="controlnet",
        plant=planting.controlnet_kept,
    ),
    Bug(
        name="stale residual across runs",
        says="A run reuses what the run before it left.",
        oracle="equivalence",
        seen_by="a run behind others",
        part="runs",
        plant=lambda: planting.reuse_with(planting.of_the_run_before),
        moves_latents=False,
    ),
    Bug(
        name="stored array changed in place",
        says="Reusing a residual changes it for the next reuse.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        plant=planting.changed_in_place,
    ),
)
