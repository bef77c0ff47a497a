"""Calibrations: the numbers for one checkpoint with their evidence. Must not import mlx, mflux or pluggy."""

from teacache.calibration.load import load_calibration, load_calibrations, shipped_calibrations
from teacache.calibration.model import (
    BODY_OUTPUT_CHANGE,
    Calibration,
    ChangeCurve,
    GateNumbers,
    Recipe,
    SignalSource,
)
from teacache.calibration.save import save_calibration

__all__ = [
    "BODY_OUTPUT_CHANGE",
    "Calibration",
    "ChangeCurve",
    "GateNumbers",
    "Recipe",
    "SignalSource",
    "load_calibration",
    "load_calibrations",
    "save_calibration",
    "shipped_calibrations",
]
