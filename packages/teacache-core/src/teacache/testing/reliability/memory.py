"""Cases about transformers that are shared, replaced or freed. Needs pytest; mflux only inside functions."""

from __future__ import annotations

import gc
import importlib
import weakref
from typing import Any

import pytest

from teacache.errors import AlreadyWrappedError, OptionError, TransformerReplacedWarning
from teacache.testing.reliability.base import POLICIES, ReliabilitySuite, each_policy
from teacache.testing.reliability.weights import scale
from teacache.testing.spies import expected_warnings, same, snapshot


def freeing(model: Any) -> Any:
    """Low-RAM mode of mflux, which tells whether the transformer was gone when its `call_after_loop` returned."""
    saver = importlib.import_module("mflux.callbacks.instances.memory_saver").MemorySaver

    class Freeing(saver):  # type: ignore[misc, valid-type]
        transformer: Any = weakref.ref(model.transformer)
        alive: bool | None = None

        def call_before_loop(self, **_: Any) -> None:
            """Keeps the text encoders: the next picture is made with them."""

        def call_after_loop(self, **given: Any) -> None:
            super().call_after_loop(**given)
            gc.collect()
            self.alive = self.transformer() is not None

    return Freeing(model, keep_transformer=False, cache_limit_bytes=None)


class Memory(ReliabilitySuite):
    """Shared, replaced and freed: a transformer that is not the pipeline's own any more."""

    @each_policy
    def test_two_pipelines_share_one_transformer(self, model: Any, policy: str) -> None:
        """Red when the second pipeline is cached, counted or changed; wrapping it too is refused by name."""
        other = self.make_model()
        other.transformer = model.transformer
        before = snapshot(other, self.adapter, self.pipeline_of(other))
        plain = self.generate(other)
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            clean = self.run(model, handle)
            assert same(plain, self.generate(other))
            with pytest.raises(AlreadyWrappedError, match="shares it"):
                self.wrap(other, **POLICIES[policy])
            self.repeats(model, handle, clean, "the other pipeline's run")
            assert len(handle.stats.runs) == 2
        assert snapshot(other, self.adapter, self.pipeline_of(other)) == before

    @each_policy
    def test_a_replaced_transformer_is_run_plainly(self, model: Any, policy: str) -> None:
        """Red when pictures of a transformer that nobody wrapped are cached, or `restore` damages it."""
        old, other = model.transformer, self.make_model()
        scale(other, other.transformer)
        plain = self.generate(other)
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            clean = self.run(model, handle)
            model.transformer = other.transformer
            with pytest.warns(TransformerReplacedWarning, match="without the cache"):
                assert same(plain, self.generate(model, handle))
            assert len(handle.stats.runs) == 1
            with pytest.raises(AlreadyWrappedError, match="its transformer was replaced since"):
                self.wrap(model, **POLICIES[policy])
            model.transformer = old
            self.repeats(model, handle, clean, "the transformer's return")
        assert not hasattr(type(old), "teacache_boundary") and type(old) is type(other.transformer)

    @pytest.mark.parametrize(("first", "policy"), [("wrap", "gate"), ("saver", "gate"), ("saver", "plan")])
    def test_low_ram_mode_frees_the_transformer(self, model: Any, policy: str, first: str) -> None:
        """Red when a piece, a predict function or a residual keeps it: it would stand beside the VAE in memory."""
        saver = freeing(model)
        if first == "saver":
            model.callbacks.register(saver)
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            if first == "wrap":
                model.callbacks.register(saver)
            _, records = self.run(model, handle)
            assert {record.action for record in records} == {"compute", "reuse"}
            assert saver.alive is False
        assert model.transformer is None
        with pytest.raises(OptionError, match="were freed"):
            self.wrap(model, **POLICIES[policy])
        model.transformer = self.make_model().transformer
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            self.run(model, handle)
