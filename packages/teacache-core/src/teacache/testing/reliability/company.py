"""Cases about several models, and about calls from elsewhere. Needs pytest; never imports mflux."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from teacache.errors import AlreadyWrappedError, ForeignWrapperError
from teacache.testing.reliability.base import POLICIES, ReliabilitySuite, in_a_thread
from teacache.testing.spies import compile_disabled, expected_warnings, same, snapshot, transformer_of


class Company(ReliabilitySuite):
    """Shared and several: models do not meet, and calls from elsewhere are plain."""

    def test_two_models_in_turn(self, model: Any) -> None:
        """Red when wrapping or running one object reaches another of its class, wrapped or not."""
        other = self.make_model()
        plain = self.generate(other)
        with expected_warnings(), self.wrap(model, **POLICIES["gate"]) as handle:
            clean = self.run(model, handle)
            assert same(plain, self.generate(other))
            with self.wrap(other, **POLICIES["plan"]) as second:
                planned = self.run(other, second)
                self.repeats(model, handle, clean, "the other model's run")
                with pytest.raises(AlreadyWrappedError, match="restore"):
                    self.wrap(model, **POLICIES["plan"])
                self.repeats(other, second, planned, "the first model's run")
                self.repeats(model, handle, clean, "a refused second wrap")
            assert same(plain, self.generate(other))

    def test_direct_calls_and_training_are_plain(self, model: Any) -> None:
        """Red when a call outside a run is answered with a residual, counted, or has other gradients."""
        transformer = transformer_of(model, self.pipeline_of(model))
        with compile_disabled():
            args, kwargs = self._a_call(model, transformer)

            def loss(module: Any) -> mx.array:
                return mx.abs(module(*args, **kwargs)).mean()

            def gradients() -> list[tuple[str, mx.array]]:
                value, grads = nn.value_and_grad(transformer, loss)(transformer)
                return [("loss", value), *tree_flatten(grads)]

            plain, trained = transformer(*args, **kwargs), gradients()
            mx.eval(plain, trained)
            for options in POLICIES.values():
                with expected_warnings(), self.wrap(model, **options) as handle:
                    self.run(model, handle)
                    assert mx.array_equal(transformer(*args, **kwargs), plain)
                    again = gradients()
                    assert all(mx.array_equal(now, then) for (_, now), (_, then) in zip(again, trained, strict=True))
                    assert len(handle.stats.runs) == 1

    def test_a_call_from_another_thread_in_the_middle_of_one(self, model: Any) -> None:
        """Red when a call that is steered steers what another thread asks of the same transformer meanwhile."""
        transformer = transformer_of(model, self.pipeline_of(model))
        block = transformer[self.adapter.body.blocks[0]][0]
        base, found = type(block), []
        with compile_disabled():
            args, kwargs = self._a_call(model, transformer)

            def call() -> mx.array:
                output = transformer(*args, **kwargs)
                mx.eval(output)
                return output

            class Meanwhile(base):  # type: ignore[misc, valid-type]
                busy = False

                def __call__(self, *args: Any, **kwargs: Any) -> Any:
                    if not Meanwhile.busy:
                        Meanwhile.busy = True
                        found.append(in_a_thread(call))
                        Meanwhile.busy = False
                    return super().__call__(*args, **kwargs)

            plain = call()
            with expected_warnings(), self.wrap(model, **POLICIES["gate"]) as handle:
                clean = self.run(model, handle)
                block.__class__ = Meanwhile
                self.repeats(model, handle, clean, "calls from another thread")
                block.__class__ = base
        assert found and all(mx.array_equal(plain, one) for one in found)

    def test_another_tools_proxy_is_refused_by_name(self, model: Any) -> None:
        """Red when a stand-in of another tool is wrapped as if it were the transformer, or damaged."""
        name = self.pipeline_of(model).transformer
        if name is None:
            pytest.skip("the model is the transformer")
        proxy = Proxy(getattr(model, name))
        setattr(model, name, proxy)
        pipeline = self.pipeline_of(model)
        before = snapshot(model, self.adapter, pipeline)
        with expected_warnings(), pytest.raises(ForeignWrapperError, match=r"Proxy.*another tool"):
            self.wrap(model, threshold=0.0)
        assert snapshot(model, self.adapter, pipeline) == before

    def _a_call(self, model: Any, transformer: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the transformer's first call in a run."""
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        base = type(transformer)

        class Seen(base):  # type: ignore[misc, valid-type]
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                calls.append((args, kwargs))
                return super().__call__(*args, **kwargs)

        transformer.__class__ = Seen
        self.generate(model)
        transformer.__class__ = base
        return calls[0]


class Proxy(nn.Module):
    """Hands everything on to a transformer, as another cache's wrapper does."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The transformer's answer."""
        return self.inner(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """The transformer's attribute, where the proxy has none."""
        inner = dict.get(self, "inner")
        if inner is None or name == "inner":
            return super().__getattr__(name)
        return getattr(inner, name)

    def __getitem__(self, key: str) -> Any:
        """The transformer's entry, where the proxy has none."""
        return dict.__getitem__(self, key) if key == "inner" else self.inner[key]
