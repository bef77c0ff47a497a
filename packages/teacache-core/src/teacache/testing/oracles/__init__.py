"""Four questions, four checks: has an artefact drifted, is the wrapper neutral, is its path the same, is it good?

No oracle compares bytes across processes or with stored output of a model. Imports mlx; never mflux.
"""

from teacache.testing.oracles.drift import drift, drift_of_core
from teacache.testing.oracles.equivalence import PARTS, equivalence
from teacache.testing.oracles.expected import Expected, expected_of
from teacache.testing.oracles.neutrality import neutrality
from teacache.testing.oracles.quality import quality
from teacache.testing.oracles.result import Check, Result
from teacache.testing.oracles.subject import Subject
from teacache.testing.oracles.surface import surface

__all__ = [
    "PARTS",
    "Check",
    "Expected",
    "Result",
    "Subject",
    "drift",
    "drift_of_core",
    "equivalence",
    "expected_of",
    "neutrality",
    "quality",
    "surface",
]
