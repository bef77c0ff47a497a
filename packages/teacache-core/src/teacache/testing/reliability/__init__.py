"""The suite about what must never happen: state that outlives its run, and pictures that are silently wrong.

Needs pytest; imports mlx; never mflux. As `AdapterConformance`::

    class TestMine(AdapterReliability):
        adapter = MY_ADAPTER

        def make_model(self):
            return a_small_model_with_random_weights()

`teacache.testing.reliability.mflux` adds what only mflux's pipelines have.
"""

from __future__ import annotations

from teacache.testing.reliability.base import POLICIES
from teacache.testing.reliability.company import Company
from teacache.testing.reliability.interruption import Interruption
from teacache.testing.reliability.isolation import Isolation
from teacache.testing.reliability.life import RandomLife
from teacache.testing.reliability.numbers import Numbers
from teacache.testing.reliability.surroundings import Surroundings
from teacache.testing.reliability.transactions import Transactions
from teacache.testing.reliability.weights import LiveWeights

__all__ = ["POLICIES", "AdapterReliability"]


class AdapterReliability(
    Isolation, Interruption, LiveWeights, Company, Numbers, Transactions, Surroundings, RandomLife
):
    """Subclass it as ``class TestSomething`` with `adapter` and `make_model`; its attributes are `AdapterSuite`'s."""
