"""Policies: numbers in, decisions out. Must not import mlx, mflux or pluggy."""

from teacache.policies.gate import Decision, Gate, replay_gate

__all__ = ["Decision", "Gate", "replay_gate"]
