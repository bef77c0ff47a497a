"""The reliability suite for mflux's pipelines: its callbacks, schedulers, image-to-image and low-RAM mode.

Needs pytest; imports mlx; mflux only inside functions.
"""

from __future__ import annotations

from teacache.testing.reliability import AdapterReliability
from teacache.testing.reliability.breaks import Breaks
from teacache.testing.reliability.memory import Memory
from teacache.testing.reliability.starts import LateStarts

__all__ = ["MfluxReliability"]


class MfluxReliability(AdapterReliability, Breaks, LateStarts, Memory):
    """As `AdapterReliability`; the model is an mflux pipeline whose transformer is the attribute ``transformer``."""
