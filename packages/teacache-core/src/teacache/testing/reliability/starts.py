"""Cases about image-to-image, which starts late. Needs pytest; never imports mflux."""

from __future__ import annotations

from typing import Any

import pytest

from teacache.errors import NothingReusedWarning, PlanError
from teacache.testing.materials import picture
from teacache.testing.reliability.base import POLICIES, ReliabilitySuite
from teacache.testing.spies import compile_disabled, expected_warnings, same


class LateStarts(ReliabilitySuite):
    """Late starts: image-to-image at every strength, 1.0 and its no step at all included."""

    def started(self, folder: Any, start: int) -> dict[str, Any]:
        """Returns the arguments of a run whose first step is that one."""
        return {"image_path": picture(folder), "image_strength": min(1.0, (start + 0.5) / self.steps)}

    @pytest.mark.parametrize("policy", ["gate", "plan from a recording"])
    def test_every_strength(self, model: Any, policy: str, tmp_path: Any) -> None:
        """Red when steps that never ran are counted, the first one that runs is reused, or a start is refused."""
        options = POLICIES.get(policy, {"speedup": 2.0})
        with compile_disabled():
            starts = range(1, self.steps + 1) if self.thorough else (1, 3, self.steps - 1, self.steps)
            plain = {start: self.generate(model, **self.started(tmp_path, start)) for start in starts}
            with expected_warnings(), self.wrap(model, **options) as handle:
                self.run(model, handle)
                for start, expected in plain.items():
                    latents, records = self.run(model, handle, **self.started(tmp_path, start))
                    assert [record.step for record in records] == list(range(start, self.steps))
                    assert [record.action for record in (*records[:1], *records[-1:])].count("reuse") == 0
                    reused = sum(record.action == "reuse" for record in records)
                    assert same(latents, expected) or reused > 0
                    assert reused > 0 or len(records) < 4, "image-to-image with four steps reuses none"

    @pytest.mark.parametrize("active", [0, 1, 2])
    def test_too_few_steps_say_so(self, model: Any, active: int, tmp_path: Any) -> None:
        """Red when a run that can reuse nothing stays silent, or moves the picture."""
        late = self.started(tmp_path, self.steps - active)
        says = "no step" if active == 0 else rf"too few steps \({active}\)"
        with compile_disabled():
            plain = self.generate(model, **late)
            with expected_warnings():
                handle = self.wrap(model, **POLICIES["gate"])
            with handle, pytest.warns(NothingReusedWarning, match=says):
                latents, _ = self.run(model, handle, **late)
            assert len(plain) == active and same(plain, latents)

    def test_a_given_plan_that_the_run_cannot_have(self, model: Any, tmp_path: Any) -> None:
        """Red when steps of a plan that a late start does not have are dropped in silence, or break the next run."""
        with compile_disabled(), expected_warnings(), self.wrap(model, **POLICIES["plan"]) as handle:
            clean = self.run(model, handle)
            with pytest.raises(PlanError, match=r"holds \[2, 3\], but the run has the steps 0 to 1"):
                self.generate(model, handle, **self.started(tmp_path, self.steps - 2))
            latents = self.generate(model, handle, **self.started(tmp_path, self.steps))
            assert latents == []
            self.repeats(model, handle, clean, "a refused plan")
