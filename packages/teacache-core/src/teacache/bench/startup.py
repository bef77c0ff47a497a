"""What importing costs, and wrapping and restoring. Must not import mflux."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

import teacache
from teacache.bench.paired import Estimate

IMPORT_TARGET = 0.050
WRAP_TARGET = 0.005

_IMPORT = (
    "import sys, time; start = time.perf_counter(); import teacache; taken = time.perf_counter() - start; "
    "import json; print(json.dumps([taken, 'mflux' in sys.modules or 'mlx' in sys.modules]))"
)


def import_seconds(processes: int = 15) -> tuple[Estimate, bool]:
    """Returns what `import teacache` takes in fresh processes, and whether it brought mflux or mlx along."""
    found = [
        json.loads(subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(processes + 1)
    ][1:]
    return _seconds([seconds for seconds, _ in found]), any(heavy for _, heavy in found)


def wrap_seconds(model: Any, times: int = 30) -> Estimate:
    """Returns what wrapping and restoring a pipeline takes together."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        teacache.wrap(model, threshold=0.0).restore()
        found.append(time.perf_counter() - start)
    return _seconds(found[1:])


def _seconds(values: list[float]) -> Estimate:
    rng = np.random.default_rng(0)
    samples = np.median(rng.choice(values, (2000, len(values))), axis=1)
    return Estimate.of(float(np.median(values)), samples, len(values))
