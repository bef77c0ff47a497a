"""What an oracle answers: figures, a verdict and the evidence. Plain data; imports neither mlx nor mflux."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeAlias

from teacache.errors import OracleError

Figure: TypeAlias = float | int | str | bool
Verdict: TypeAlias = Literal["passed", "failed", "not judged"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that an oracle looked at.

    Attributes:
        name: what was looked at.
        verdict: "passed", "failed", or "not judged" where there is no bound to judge by.
        figures: what was measured.
        says: what it means, and what to do, where the verdict is not "passed".
    """

    name: str
    verdict: Verdict
    figures: Mapping[str, Figure] = field(default_factory=dict)
    says: str = ""

    @classmethod
    def of(cls, name: str, passed: bool, *, says: str = "", **figures: Figure) -> Check:
        """Returns a check that passed or failed; `says` is kept where it failed."""
        return cls(name=name, verdict="passed" if passed else "failed", figures=figures, says="" if passed else says)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What one oracle found out about one subject.

    Attributes:
        oracle: "drift", "neutrality", "equivalence" or "quality".
        question: what was asked.
        subject: what it was asked of.
        checks: what was looked at.
        evidence: where and with what: see `environment`.
    """

    oracle: str
    question: str
    subject: str
    checks: tuple[Check, ...]
    evidence: Mapping[str, Figure]

    @property
    def passed(self) -> bool:
        """At least one check was judged, and none failed."""
        verdicts = {check.verdict for check in self.checks}
        return "failed" not in verdicts and "passed" in verdicts

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.verdict == "failed")

    def require(self) -> Result:
        """Returns the result if it passed.

        Raises:
            OracleError: a check failed; the message is the table.
        """
        if not self.passed:
            raise OracleError(str(self))
        return self

    def to_json(self) -> str:
        """Returns everything as JSON; numbers that JSON does not know become texts."""
        return json.dumps(_plain(asdict(self) | {"passed": self.passed}), indent=2)

    def __str__(self) -> str:
        """A table: one row for each check, and what a failure means."""
        rows = [(check.name, check.verdict, _figures(check.figures)) for check in self.checks]
        wide = max((len(name) for name, _, _ in rows), default=0)
        lines = [f"{self.oracle} of {self.subject}: {'passed' if self.passed else 'FAILED'} ({self.question})"]
        lines += [f"  {name:<{wide}}  {verdict:<10}  {figures}".rstrip() for name, verdict, figures in rows]
        lines += [f"  {check.name}: {check.says}" for check in self.checks if check.says]
        return "\n".join([*lines, "  " + _figures(self.evidence)])


def environment() -> dict[str, Figure]:
    """Returns what a measurement depends on: hardware, MLX's device, versions and the date."""
    import mlx.core as mx

    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "device": mx.default_device().type.name,
        "python": platform.python_version(),
        **{name: installed for name in ("mlx", "mflux", "teacache-core") if (installed := version_of(name))},
        "date": datetime.now(UTC).date().isoformat(),
    }


def version_of(distribution: str) -> str | None:
    """Returns the version of an installed distribution, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _figures(figures: Mapping[str, Figure]) -> str:
    return ", ".join(f"{name} {_figure(value)}" for name, value in figures.items())


def _figure(value: Figure) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
