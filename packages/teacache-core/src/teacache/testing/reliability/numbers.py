"""Cases about numbers that are none. Needs pytest; never imports mflux."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from teacache.errors import StoreWarning
from teacache.store import Store
from teacache.testing.reliability.base import ReliabilitySuite
from teacache.testing.spies import compile_disabled, expected_warnings, same, transformer_of
from teacache.testing.suite import ALTERNATE

Damage = Callable[[list[list[float]]], Any]

DAMAGES: dict[str, Damage] = {
    "NaN": lambda products: [[float("nan")] * len(products)] * len(products),
    "infinity": lambda products: [[float("inf")] * len(products)] * len(products),
    "negative eigenvalues": lambda products: (2 * np.diag(np.diag(products)) - np.array(products)).tolist()[::-1],
    "wrong size": lambda products: products[:-1],
    "too large to be a float": lambda products: [[10**400] * len(products)] * len(products),
    "all zero": lambda products: [[0.0] * len(products)] * len(products),
    "no numbers": lambda products: "numbers",
}


class Numbers(ReliabilitySuite):
    """Numbers that lie: what is no number is computed, and never planned from."""

    @pytest.mark.parametrize("value", [float("nan"), 0.0])
    def test_weights_that_spoil_the_signal_are_computed(self, model: Any, value: float) -> None:
        """Red when a change that is no number passes for a small one, or when a spoilt run is kept as a recording."""
        transformer = transformer_of(model, self.pipeline_of(model))
        parameters: list[tuple[str, mx.array]] = tree_flatten(transformer.parameters())  # type: ignore[assignment]
        transformer.load_weights([(name, mx.full(array.shape, value, array.dtype)) for name, array in parameters])
        with compile_disabled(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)  # mflux turns NaN into pixels
            plain = self.generate(model)
            with expected_warnings(), self.wrap(model, **ALTERNATE) as handle:
                latents, records = self.run(model, handle)
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(plain, latents, strict=True))
            assert {record.action for record in records} == {"compute"}
            assert {record.reason for record in records[1:-1]} == {"non-finite"}
            with self.wrap(model, speedup=2.0) as handle, expected_warnings():
                self.run(model, handle)
                assert list(Store().all()) == []
                _, records = self.run(model, handle)
            assert {record.reason for record in records} == {"recording"}

    def test_kernels_that_are_none_are_not_used(self, model: Any) -> None:
        """Red when pictures are planned from numbers that cannot be inner products, or when such a file stops one."""
        with compile_disabled():
            plain = self.generate(model)
            with expected_warnings(), self.wrap(model, speedup=2.0) as handle:
                self.run(model, handle)
            # Reading is the core's; each family shows that what cannot be read leaves its pictures alone.
            few = {name: DAMAGES[name] for name in ("NaN", "negative eigenvalues")}
            for damage, spoil in (DAMAGES if self.thorough else few).items():
                [(path, _)] = Store().all()
                data = json.loads(path.read_text(encoding="utf-8"))
                path.write_text(json.dumps({**data, "products": spoil(data["products"])}), encoding="utf-8")
                with self.wrap(model, speedup=2.0) as handle, pytest.warns() as given:
                    latents, records = self.run(model, handle)
                assert StoreWarning in {type(warning.message) for warning in given}, damage
                assert {record.reason for record in records} == {"recording"} and same(latents, plain), damage
