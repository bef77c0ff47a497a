"""Cases about what one run leaves to the next. Needs pytest; never imports mflux."""

from __future__ import annotations

from typing import Any

from teacache.testing.reliability.base import POLICIES, ReliabilitySuite, each_policy, in_a_thread
from teacache.testing.spies import expected_warnings


class Isolation(ReliabilitySuite):
    """Run isolation: A, then B, then A again; the second A equals the first bit for bit, decisions too."""

    @each_policy
    def test_another_run_in_between_changes_nothing(self, model: Any, policy: str) -> None:
        """Red when size, prompt, steps, guidance, seed or scheduler of one run reach the next."""
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            first = self.run(model, handle)
            each = self.between()
            # A plan looks at the schedule alone.
            own = [name for name in each if name not in ("seed", "steps")]
            for difference in each if self.thorough else own if policy == "gate" else ["steps", "all of them"]:
                arguments = each[difference]
                self.run(model, handle, **arguments)
                self.repeats(model, handle, first, f"a run with another {difference}")

    @each_policy
    def test_a_worker_thread_makes_the_same_picture(self, model: Any, policy: str) -> None:
        """Red when a lazy array, a run or the state of the boundary belongs to the thread that wrapped."""
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            first = self.run(model, handle)
            in_a_thread(lambda: self.repeats(model, handle, first, "a change of thread"))
            self.repeats(model, handle, first, "the worker thread's run")

    def alternate(self, model: Any, policy: str, times: int) -> None:
        """Makes two pictures in turn; each must stay what it was."""
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            first = self.run(model, handle)
            other = self.run(model, handle, **self.between()["all of them"])
            for time in range(times):
                self.repeats(model, handle, first, f"{time + 1} turns")
                again = self.run(model, handle, **self.between()["all of them"])
                assert [latents.tobytes() for latents in again[0]] == [latents.tobytes() for latents in other[0]]
