"""What the user may ask of `wrap`, checked. Must not import mlx or mflux."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teacache.errors import CoefficientsError, OptionError, PlanError
from teacache.policies.options import finite, validate_coefficients, validate_options, validate_threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See `teacache.wrap`."""

    threshold: float | None = None
    coefficients: Sequence[float] | None = None
    speedup: float | None = None
    computed_steps: int | None = None
    plan: Sequence[int] | None = None
    warmup: int = 1
    cooldown: int = 1
    max_reuse: int = 8
    mode: str = "cache"
    reconstruction: str = "reuse"

    def __post_init__(self) -> None:
        """Checks every option by itself and against the others."""
        if self.threshold is not None:
            validate_threshold(self.threshold)
        if self.coefficients is not None:
            validate_coefficients(self.coefficients)
            if self.threshold is None:
                raise CoefficientsError(
                    "coefficients= was given without threshold=: a polynomial has no threshold of its own. "
                    "Give both, for example threshold=0.2."
                )
        validate_options(warmup=self.warmup, cooldown=self.cooldown, max_reuse=self.max_reuse)
        if self.mode not in ("cache", "shadow"):
            raise OptionError(f"mode={self.mode!r} was given; expected 'cache' or 'shadow'.")
        if self.reconstruction not in ("reuse", "linear"):
            raise OptionError(f"reconstruction={self.reconstruction!r} was given; expected 'reuse' or 'linear'.")
        self._check_plan()

    def _check_plan(self) -> None:
        wishes = {"speedup": self.speedup, "computed_steps": self.computed_steps, "plan": self.plan}
        given = [name for name, value in wishes.items() if value is not None]
        gate = [name for name in ("threshold", "coefficients") if getattr(self, name) is not None]
        if len(given) > 1 or (given and (gate or self.mode == "shadow")):
            clash = [*given, *gate, *(["mode='shadow'"] if self.mode == "shadow" else [])]
            raise OptionError(
                f"{', '.join(clash)} were given together: they choose the steps in different ways. Give one of "
                "speedup=, computed_steps=, plan=, or the gate's threshold= (with coefficients= and mode=)."
            )
        if given and self.reconstruction != "reuse":
            raise OptionError(
                f"{given[0]} and reconstruction={self.reconstruction!r} were given together: a plan carries the "
                "velocity, a residual is the gate's. Leave one of the two out."
            )
        if self.speedup is not None:
            number = finite(self.speedup)
            if number is None or number < 1:
                raise PlanError(f"speedup={self.speedup!r} was given; expected a number from 1 up, for example 2.0.")
        if self.computed_steps is not None and (type(self.computed_steps) is not int or self.computed_steps < 2):
            raise PlanError(
                f"computed_steps={self.computed_steps!r} was given; expected a whole number from 2 up: the first and "
                "the last step are always computed."
            )
        if self.plan is not None and not all(type(step) is int for step in self.plan):
            raise PlanError(f"plan={self.plan!r} was given; expected the indices of the computed steps, as [0, 1, 4].")

    @property
    def off(self) -> bool:
        """The plain path is asked for."""
        return self.mode == "cache" and self.threshold is not None and self.threshold == 0

    @property
    def asks_for_gate(self) -> bool:
        """The gate, or a measurement of it, is asked for."""
        return self.threshold is not None or self.mode == "shadow"

    @property
    def wants_polynomial(self) -> bool:
        """A checkpoint's own polynomial would be used, if there is one."""
        own = self.coefficients is not None or self.plan is not None
        return not (self.off or own or self.asks_for_budget)

    @property
    def asks_for_budget(self) -> bool:
        """A speed is asked for, however it is reached."""
        return self.speedup is not None or self.computed_steps is not None
