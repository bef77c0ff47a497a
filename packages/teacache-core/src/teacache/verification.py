"""`wrap(verify=True)`: proves on this machine, with these weights, that the traced path is the untouched one.

Must not import mflux.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from teacache.adapter import Adapter
from teacache.distance import Distance, distance
from teacache.errors import VerificationError
from teacache.pieces import Pieces
from teacache.run import RunInfo
from teacache.tolerance import Bound, load_tolerance
from teacache.walks import Args, Kwargs


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What was found in the first computed step.

    Attributes:
        distance: of what the traced path predicted to what the untouched one did.
        bound: the adapter's bound on it; 0.0: bit-exact.
        measured: where the bound comes from.
    """

    distance: Distance
    bound: float
    measured: str

    @property
    def passed(self) -> bool:
        """The distance lies within the bound."""
        return self.distance.exact or (self.bound > 0 and self.distance.mean_abs <= self.bound)

    def __str__(self) -> str:
        """One line: how far the two paths are apart here."""
        if self.distance.exact:
            return "verified: the traced path equals the untouched one bit for bit"
        apart = f"{self.distance.mean_abs:.3g} apart on average, {self.distance.max_abs:.3g} at most"
        return f"{'verified' if self.passed else 'refused'}: {apart}; the bound is {self.bound:.3g} ({self.measured})"


class Verifier:
    """Runs both paths once. Kept by a session; `result` is None until a step was computed.

    Args:
        adapter: whose tolerance is asked; without one the paths must be equal bit for bit.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.result: Verification | None = None
        self._name = adapter.name
        self._target_tokens = adapter.target_tokens
        self._bound = Bound(comparison="same path", value=0.0, margin=1.0)
        self._measured = f"the adapter {adapter.name!r} has no tolerance, so every bit must be equal"
        if adapter.tolerance is not None:
            tolerance = load_tolerance(adapter.tolerance)
            self._bound = tolerance.bound("same path") or self._bound
            where = [tolerance.evidence[key] for key in ("machine", "mlx", "date")]
            self._measured = "measured on {} with MLX {}, {}".format(*where)

    def __call__(self, make_pieces: Callable[[int | None], Pieces], info: RunInfo, args: Args, kwargs: Kwargs) -> None:
        """Compares the two paths on a step's first call, unless it was done before.

        Args:
            make_pieces: from the number of target tokens to the pieces of the entry.
            info: the run that the call belongs to.
            args: positional arguments of the call.
            kwargs: keyword arguments of the call.

        Raises:
            VerificationError: they are further apart than the adapter's bound.
        """
        if self.result is not None and self.result.passed:
            return
        pieces = make_pieces(None if info.image_tokens is None else self._target_tokens(info.image_tokens))
        _, tokens = pieces.probe(args, kwargs)
        traced, _, _ = pieces.compute(args, kwargs, tokens)
        untouched = pieces.plain(args, kwargs)
        mx.eval(traced, untouched)
        self.result = Verification(
            distance=distance(_numbers(traced), _numbers(untouched)),
            bound=self._bound.value,
            measured=self._measured,
        )
        if not self.result.passed:
            raise VerificationError(
                f"The adapter {self._name!r} changes this model's numbers on this machine: {self.result}. Nothing of "
                "the traced path was used. Call restore() and use the model without the cache; `teacache doctor` and "
                f"`teacache check {self._name}` say more."
            )


def _numbers(array: mx.array) -> np.ndarray[Any, Any]:
    return np.array(array.astype(mx.float32))
