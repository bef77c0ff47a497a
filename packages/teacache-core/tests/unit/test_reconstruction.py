"""What stands in for the body on a reused step: the last residual, or the line in sigma through the last two."""

from __future__ import annotations

import mlx.core as mx
import pytest

import teacache
from teacache.errors import OptionError, PlanError
from teacache.testing.conformance import ALTERNATE
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.spies import expected_warnings, same

pytestmark = pytest.mark.unit

SIGMAS = [1.0, 0.8, 0.5, 0.3, 0.1, 0.0]
"""With `ALTERNATE` the steps 0, 2 and 4 are computed, 1 and 3 reused."""


def residual(model: Denoiser, x: mx.array, sigma: float) -> mx.array:
    """What the three blocks add, from the layers themselves."""
    before = tokens = model.embed(x)
    for block in model.blocks:
        tokens = block(tokens, mx.array([sigma, 1 - sigma] * 8))
    return tokens - before


def outputs(
    model: Denoiser, inputs: list[mx.array], **options: object
) -> tuple[list[mx.array], teacache.stats.RunStats]:
    """The model's answer on each step of a run."""
    with expected_warnings(), teacache.wrap(model, adapter=ADAPTER, **ALTERNATE, **options) as handle:
        with handle.run(SIGMAS) as run:
            made = [model(inputs[k], SIGMAS[k]) for k in run]
        stats = handle.stats.last
    assert stats is not None
    return made, stats


def test_linear_is_the_line_through_the_last_two_computed_steps() -> None:
    """Red when the ratio is upside down or counted in steps, or the older residual is of another step."""
    model, x = Denoiser(), mx.ones((1, 9, 4))
    made, stats = outputs(model, [x] * 5, reconstruction="linear")
    assert stats.timeline == "#.#.#"
    assert stats.policy.endswith("residuals linear in sigma")
    first, last = residual(model, x, 1.0), residual(model, x, 0.5)
    expected = model.head(model.embed(x) + last + 0.4 * (last - first))  # (0.3 - 0.5) / (0.5 - 1.0)
    assert mx.allclose(made[3], expected, atol=1e-6)
    assert not mx.allclose(made[3], model.head(model.embed(x) + last), atol=1e-4)


def test_one_known_residual_is_reused_as_it_is() -> None:
    """Red when the first gap extrapolates from nothing: its one residual stands in, bit for bit."""
    model, x = Denoiser(), mx.ones((1, 9, 4))
    linear, _ = outputs(model, [x] * 5, reconstruction="linear")
    reuse, _ = outputs(model, [x] * 5)
    assert mx.array_equal(linear[1], reuse[1])


def test_another_shape_falls_back_to_the_last_residual() -> None:
    """Red when residuals of different sizes are subtracted from each other."""
    model = Denoiser()
    sizes = [mx.ones((1, count, 4)) for count in (9, 9, 12, 12, 12)]
    linear, stats = outputs(model, sizes, reconstruction="linear")
    assert stats.timeline == "#.#.#"
    assert mx.allclose(linear[3], model.head(model.embed(sizes[3]) + residual(model, sizes[2], 0.5)), atol=1e-6)


def test_half_precision_stays_half_precision() -> None:
    """Red when the line is left in float32: the residual would no longer fit the tokens, and be computed."""

    class Half(Denoiser):
        def __call__(self, x: mx.array, sigma: float) -> mx.array:
            tokens, time = self.embed(x), mx.array([sigma, 1 - sigma] * 8, dtype=mx.bfloat16)
            for block in self.blocks:
                tokens = block(tokens, time)
            return self.head(tokens)

    model = Half()
    model.set_dtype(mx.bfloat16)
    made, stats = outputs(model, [mx.ones((1, 9, 4), dtype=mx.bfloat16)] * 5, reconstruction="linear")
    assert stats.timeline == "#.#.#" and made[3].dtype == mx.bfloat16


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_reuse_is_the_default_bit_for_bit(guidance: float) -> None:
    """Red when the default moves to the line, or `linear` changes nothing in a whole run."""
    model = Denoiser()

    def made(**options: object) -> list[object]:
        with expected_warnings(), teacache.wrap(model, adapter=ADAPTER, **ALTERNATE, **options) as handle:
            return denoise(model, handle, seed=2, steps=8, guidance=guidance)

    assert same(made(), made(reconstruction="reuse"))
    assert not same(made(), made(reconstruction="linear"))


@pytest.mark.parametrize("options", [{"reconstruction": "cubic"}, {"reconstruction": "linear", "speedup": 2.0}])
def test_impossible_reconstructions_are_refused(options: dict[str, object]) -> None:
    """Red when an unknown name is taken for one that exists, or the option is silently without effect in a plan."""
    with pytest.raises(OptionError, match="reconstruction='") as raised:
        teacache.wrap(Denoiser(), adapter=ADAPTER, **options)
    assert not isinstance(raised.value, PlanError)
