"""Weights that are not here: which of the many errors on the way means what, and what it says."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from teacache.errors import WeightsError
from teacache.testing.fetching import why_not_fetched
from teacache.testing.models import load

pytestmark = pytest.mark.unit

NAME = "lab/Model-1"


def made(name: str, *bases: type, module: str = "huggingface_hub.errors", status: int | None = None) -> Exception:
    """An error as a hub client raises it: known by its name, its module and its response."""
    error = type(name, bases or (Exception,), {"__module__": module})(f"{name} was planted")
    if status is not None:
        error.response = SimpleNamespace(status_code=status)
    return error


REPOSITORY = type("RepositoryNotFoundError", (OSError,), {"__module__": "huggingface_hub.errors"})

FAULTS = {
    "gated": (made("GatedRepoError", REPOSITORY, status=403), "is gated. Accept its licence at https://.*lab/Model-1"),
    "no account": (made("RepositoryNotFoundError", OSError, status=401), "none that your account may see"),
    "no token": (made("LocalTokenNotFoundError", OSError), "no credentials on this machine.*hf auth login"),
    "bad token": (made("HfHubHTTPError", OSError, status=401), "refused the credentials"),
    "offline": (made("OfflineModeIsEnabled", ConnectionError), "switched off by HF_HUB_OFFLINE"),
    "not cached": (made("LocalEntryNotFoundError", FileNotFoundError), "switched off by HF_HUB_OFFLINE"),
    "httpx": (made("ConnectError", type("TransportError", (Exception,), {}), module="httpx"), "could not be reached"),
    "httpx by another name": (made("ProxyError", module="httpx"), "could not be reached .ProxyError"),
    "requests": (made("ConnectionError", OSError, module="requests.exceptions"), "could not be reached"),
    "a timeout": (TimeoutError("timed out"), "could not be reached .TimeoutError: timed out"),
    "the service": (made("HfHubHTTPError", OSError, status=503), "answered with an error.*Try again later"),
    "half a download": (FileNotFoundError("No files found in x"), "not completely.*hf download lab/Model-1"),
    "a full disk": (OSError(errno.ENOSPC, "No space left on device"), "the disk is full.*HF_HOME"),
}


def loading(error: BaseException) -> Any:
    """A pipeline class whose weights cannot be loaded."""

    def construct(**given: Any) -> Any:
        raise error

    return construct


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_says_what_to_do(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a fault comes out as a traceback of the hub's client, or with another fault's remedy."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error, says = FAULTS[fault]
    with pytest.raises(WeightsError, match=rf"^The weights of lab/Model-1 could not be loaded: .*{says}"):
        load(loading(error), SimpleNamespace(model_name=NAME), 4)


def test_without_the_switch_a_missing_entry_is_a_network_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a person whose network is down is told to unset a variable that is not set."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    says = why_not_fetched(made("LocalEntryNotFoundError", FileNotFoundError), NAME)
    assert says is not None and "could not be reached" in says


def test_the_telling_cause_wins() -> None:
    """Red when the outermost error hides that the repository is gated."""
    outer = FileNotFoundError("cannot find the snapshot")
    outer.__cause__ = FAULTS["gated"][0]
    says = why_not_fetched(outer, NAME)
    assert says is not None and "is gated" in says


@pytest.mark.parametrize("error", [ValueError("wrong shape"), MemoryError(), PermissionError(errno.EACCES, "no")])
def test_other_errors_come_out_as_they_are(error: Exception) -> None:
    """Red when a bug in loading is called a missing download."""
    with pytest.raises(type(error)):
        load(loading(error), SimpleNamespace(model_name=NAME), None)
