"""A random life: what users do with a model, in random order, against a twin that never keeps a wrapper.

Needs pytest and hypothesis; never imports mflux.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from teacache.errors import AlreadyWrappedError
from teacache.testing.reliability.base import POLICIES, ReliabilitySuite, in_a_thread, outcome
from teacache.testing.reliability.weights import CHANGES
from teacache.testing.spies import LastBlockSpy, compile_disabled, expected_warnings, same, transformer_of
from teacache.wrapping import Handle

CHOICES: dict[str, dict[str, Any]] = {
    **POLICIES,
    "off": {"threshold": 0.0},
    "shadow": {"mode": "shadow"},
    "linear": {**POLICIES["gate"], "reconstruction": "linear"},
    "recorded": {"speedup": 2.0},
}
NEVER_REUSE = ("off", "shadow")
WEIGHTS = ("load_weights", "LoRA on", "LoRA off")


class Life:
    """One model and its twin. Every action does the same to both, and compares what comes out.

    The twin is wrapped anew for each picture and restored at once, or not at all where nothing may be reused: so
    nothing of an earlier picture can be in its answer.

    Args:
        suite: makes models and pictures.
        folder: for the recordings of either, apart.
    """

    def __init__(self, suite: ReliabilitySuite, folder: Path) -> None:
        self.suite, self.folder = suite, folder
        self.model, self.twin = suite.make_model(), suite.make_model()
        self.transformer = transformer_of(self.model, suite.pipeline_of(self.model))
        self.base = type(self.transformer)
        self.registry = getattr(self.model, "callbacks", None)
        self.handle: Handle | None = None
        self.policy = "off"
        self.adapted = False
        self.drawn: set[str] = set()
        self.actions: Counter[str] = Counter()

    def wrap(self, policy: str) -> None:
        """Wraps, or is refused by name where the model is wrapped."""
        with expected_warnings():
            if self.handle is not None:
                self.actions["wrap, refused"] += 1
                with pytest.raises(AlreadyWrappedError):
                    self.suite.wrap(self.model, **CHOICES[policy])
                return
            self.actions["wrap"] += 1
            self.policy, self.handle = policy, self.suite.wrap(self.model, **CHOICES[policy])

    def restore(self) -> None:
        """Gives the model back; doing it twice is no error."""
        self.actions["restore"] += 1
        if self.handle is not None:
            self.handle.restore()
            self.handle.restore()
        self.handle = None
        assert type(self.transformer) is self.base, "the transformer's class is left"
        assert "generate_image" not in vars(self.model), "generate_image is left"
        assert not any(vars(self.registry).values() if self.registry is not None else ()), "a callback is left"

    def generate(self, name: str, thread: bool) -> None:
        """Makes a picture, with other arguments and in another thread if so wished.

        mflux keeps the words of a prompt, some of them lazy: what is drawn in a thread was drawn in this one before.
        """
        thread = thread and name in self.drawn
        self.drawn.add(name)
        self.actions["generate in a thread" if thread else "generate"] += 1
        arguments = self.suite.between().get(name, {})
        expected = self._by_the_twin(arguments)
        with self._data("model"), expected_warnings():

            def make() -> Any:
                return self.suite.generate(self.model, self.handle, **arguments)

            counted = 0 if self.handle is None else len(self.handle.stats.runs)
            latents = in_a_thread(make) if thread else make()
        assert same(latents, expected), f"{self.policy}, {name}: the picture is another one"
        assert self.handle is None or len(self.handle.stats.runs) == counted + 1, "the run was not counted"

    def interrupt(self, call: int, error: type[BaseException]) -> None:
        """Breaks a picture off in its last block, if that runs so often."""
        self.actions["interrupt"] += 1
        counted = 0 if self.handle is None else len(self.handle.stats.runs)
        spy = LastBlockSpy(self.transformer, self.suite.adapter, fail_at=call, error=error)
        try:
            with self._data("model"), expected_warnings():
                outcome(lambda: self.suite.generate(self.model, self.handle))
        finally:
            spy.remove()
        assert self.handle is None or len(self.handle.stats.runs) == counted, "a broken run was counted"

    def change(self, name: str) -> None:
        """Changes the weights of both."""
        if self.adapted is (name == "LoRA on") and name != "load_weights":
            return
        self.actions[name] += 1
        self.adapted = {"LoRA on": True, "LoRA off": False}.get(name, self.adapted)
        for model in (self.model, self.twin):
            transformer = transformer_of(model, self.suite.pipeline_of(model))
            CHANGES[name](model, transformer)
            mx.eval(transformer.parameters())  # a lazy array belongs to the thread that made it

    def _by_the_twin(self, arguments: dict[str, Any]) -> Any:
        if self.handle is None or self.policy in NEVER_REUSE:
            return self.suite.generate(self.twin, None, **arguments)
        with self._data("twin"), expected_warnings(), self.suite.wrap(self.twin, **CHOICES[self.policy]) as handle:
            return self.suite.generate(self.twin, handle, **arguments)

    @contextmanager
    def _data(self, whose: str) -> Iterator[None]:
        """Has recordings kept in a folder of one's own."""
        before = os.environ.get("TEACACHE_DATA")
        os.environ["TEACACHE_DATA"] = str(self.folder / whose)
        try:
            yield
        finally:
            os.environ["TEACACHE_DATA"] = before or ""


class RandomLife(ReliabilitySuite):
    """Random life: what users do, in random order, against a twin."""

    def test_a_random_life(self, tmp_path: Any) -> None:
        """Red when any order of actions leaves something behind, or makes another picture than a clean model."""
        hypothesis = pytest.importorskip("hypothesis")
        stateful = pytest.importorskip("hypothesis.stateful")
        folders = iter(range(10**6))

        def new_life() -> Life:
            return Life(self, tmp_path / str(next(folders)))

        with compile_disabled():
            stateful.run_state_machine_as_test(
                machine_of(new_life, self),
                settings=hypothesis.settings(
                    max_examples=1, stateful_step_count=12, deadline=None, derandomize=True, database=None
                ),
            )

    def live(self, family: str, folder: Path) -> None:
        """Lives for TEACACHE_LIFE_MINUTES (one where it is not set); records it in the file TEACACHE_LIFE_RECORD."""
        minutes, path = float(os.environ.get("TEACACHE_LIFE_MINUTES", "1")), os.environ.get("TEACACHE_LIFE_RECORD")
        found = live_for(self, minutes, folder, seed=int(time.time()))
        assert found["actions"] > 0
        if path is not None:
            record(Path(path), family, found)


def machine_of(new_life: Any, suite: ReliabilitySuite) -> Any:
    """Returns hypothesis's machine: which actions there are, and with what."""
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, rule

    names = st.sampled_from(["the suite's", *suite.between()])

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.life = new_life()

        @rule(policy=st.sampled_from(sorted(CHOICES)))
        def wrap(self, policy: str) -> None:
            self.life.wrap(policy)

        @rule(policy=st.sampled_from(sorted(CHOICES)))
        def wrap_anew(self, policy: str) -> None:
            self.life.restore()
            self.life.wrap(policy)

        @rule()
        def restore(self) -> None:
            self.life.restore()

        @rule(name=names, thread=st.booleans())
        def generate(self, name: str, thread: bool) -> None:
            self.life.generate(name, thread)

        @rule(call=st.integers(1, 3), error=st.sampled_from([RuntimeError, KeyboardInterrupt]))
        def interrupt(self, call: int, error: type[BaseException]) -> None:
            self.life.interrupt(call, error)

        @rule(name=st.sampled_from(WEIGHTS))
        def change(self, name: str) -> None:
            self.life.change(name)

        def teardown(self) -> None:
            self.life.restore()

    return Machine


def live_for(suite: ReliabilitySuite, minutes: float, folder: Path, *, seed: int) -> dict[str, Any]:
    """Lives one life after the other until the time is over.

    Returns:
        How long it took, how many lives and actions there were, and how often each.

    Raises:
        AssertionError: something was lost, left behind or wrong; with the seed of the life.
    """
    started, lives, actions = time.monotonic(), 0, Counter[str]()
    ends = started + 60 * minutes
    with compile_disabled():
        while time.monotonic() < ends:
            chance = random.Random(f"{seed} {lives}")
            life = Life(suite, folder / str(lives))
            try:
                for _ in range(50):
                    _act(life, chance)
                    if time.monotonic() > ends:
                        break
                life.restore()
            except BaseException as error:
                error.add_note(f"In life {lives} of seed {seed}, after {sum(life.actions.values())} actions.")
                raise
            lives, actions = lives + 1, actions + life.actions
    return {
        "minutes": round((time.monotonic() - started) / 60, 1),
        "seed": seed,
        "lives": lives,
        "actions": sum(actions.values()),
        "each": dict(sorted(actions.items())),
    }


def _act(life: Life, chance: random.Random) -> None:
    names = ["the suite's", *life.suite.between()]
    action = chance.choice(["wrap", "wrap anew", "restore", "generate", "generate", "generate", "interrupt", "change"])
    if action == "wrap anew":
        life.restore()
    if action in ("wrap", "wrap anew"):
        life.wrap(chance.choice(sorted(CHOICES)))
    elif action == "restore":
        life.restore()
    elif action == "generate":
        life.generate(chance.choice(names), chance.random() < 0.2)
    elif action == "interrupt":
        life.interrupt(chance.randint(1, 3), chance.choice([RuntimeError, KeyboardInterrupt]))
    else:
        life.change(chance.choice(WEIGHTS))


def record(path: Path, family: str, found: dict[str, Any]) -> None:
    """Adds one family's life to a file of records."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**known, family: found}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
