"""Cases about the host's version and the network. Needs pytest; never imports mflux."""

from __future__ import annotations

import socket
import warnings
from typing import Any

import pytest

from teacache.errors import UntestedVersionWarning
from teacache.hosts import host_for
from teacache.testing.reliability.base import POLICIES, ReliabilitySuite, each_policy
from teacache.testing.spies import expected_warnings


class Surroundings(ReliabilitySuite):
    """Surroundings: a host beyond the tested ones is named once, and nothing is asked of the network."""

    def test_a_newer_host_is_named_once(self, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Red when a version that nobody has tested is used in silence, refused, or named with every picture."""
        if self.adapter.host_versions is None:
            pytest.skip("the adapter names no versions of its host")
        monkeypatch.setattr(type(host_for(self.adapter.host)), "version", lambda _: "99.1.2")
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            with self.wrap(model, **POLICIES["gate"]) as handle:
                self.run(model, handle)
                self.run(model, handle)
        named = [str(one.message) for one in given if issubclass(one.category, UntestedVersionWarning)]
        assert len(named) == 1 and "99.1.2" in named[0] and self.adapter.host_versions[1] in named[0]

    @each_policy
    def test_nothing_is_asked_of_the_network(self, model: Any, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Red when wrapping or a run opens a connection: no telemetry, no look for updates."""
        asked: list[Any] = []

        def refuse(*args: Any, **_: Any) -> Any:
            asked.append(args)
            raise OSError("the network was asked")

        for name in ("connect", "connect_ex", "sendto"):
            monkeypatch.setattr(socket.socket, name, refuse)
        for name in ("getaddrinfo", "create_connection", "gethostbyname"):
            monkeypatch.setattr(socket, name, refuse)
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            self.run(model, handle)
        assert asked == []
