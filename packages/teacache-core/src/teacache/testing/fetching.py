"""Why weights could not be fetched, in a sentence that says what to do. Imports neither mlx, mflux nor a hub client.

Which class is raised depends on the versions of huggingface_hub and of its HTTP client (requests, later httpx), and on
where the way to the weights ends, so classes are known by their names and the whole chain of causes is looked at.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping

GATED = (
    "the repository is gated. Accept its licence at https://huggingface.co/{repository} and run: hf auth login. "
    "Then run this command again."
)
NO_ACCESS = (
    "Hugging Face answered that there is no such repository, or none that your account may see. Look at "
    "https://huggingface.co/{repository}, run: hf auth login, or set HF_TOKEN to a token that may read it."
)
DENIED = "Hugging Face refused the credentials. Run: hf auth login, or set HF_TOKEN to a token that may read it."
NO_TOKEN = "there are no credentials on this machine. Run: hf auth login, or set HF_TOKEN."
OFFLINE = (
    "they are not in the local cache and the hub is switched off by {switch}. Unset it, or fetch them first where "
    "there is a network: hf download {repository}"
)
UNREACHED = (
    "they are not in the local cache and Hugging Face could not be reached ({error}). Look at the network and at "
    "HTTPS_PROXY, or fetch them where there is one: hf download {repository}"
)
INCOMPLETE = "they are not in the local cache, or not completely ({error}). Fetch them: hf download {repository}"
SERVICE = "Hugging Face answered with an error ({error}). Try again later."
FULL = "the disk is full. Make room (hf cache ls shows what is kept), or set HF_HOME to a folder on another disk."

KNOWN: Mapping[str, str] = {
    "GatedRepoError": GATED,
    "LocalTokenNotFoundError": NO_TOKEN,
    "RepositoryNotFoundError": NO_ACCESS,
    "OfflineModeIsEnabled": OFFLINE,
}
"""Classes of huggingface_hub, the more telling first: a `GatedRepoError` is a `RepositoryNotFoundError` too."""

_UNREACHED = frozenset(
    {"TransportError", "ConnectionError", "Timeout", "TimeoutError", "gaierror", "URLError", "SSLError"}
)
_CLIENTS = frozenset({"httpx", "httpcore", "requests", "urllib3", "huggingface_hub", "hf_xet"})
_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def why_not_fetched(error: BaseException, repository: str) -> str | None:
    """Returns why weights could not be fetched and what to do; None where the error is of another kind.

    Args:
        error: what loading raised.
        repository: the repository on Hugging Face.
    """
    chain = list(_chain(error))
    for name, says in KNOWN.items():
        if any(name in _names(one) for one in chain):
            return says.format(repository=repository, switch=_switch())
    for one in chain:
        found = _by_nature(one)
        if found is not None:
            return found.format(repository=repository, switch=_switch(), error=_brief(one))
    return None


def _by_nature(error: BaseException) -> str | None:
    names, status = _names(error), getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return DENIED if status in (401, 403) else NO_ACCESS if status == 404 else SERVICE
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return FULL
    if "LocalEntryNotFoundError" in names:
        return OFFLINE if _switched_off() else UNREACHED
    if names & _UNREACHED:
        return UNREACHED
    if isinstance(error, FileNotFoundError) or "EntryNotFoundError" in names:
        return INCOMPLETE
    if type(error).__module__.partition(".")[0] in _CLIENTS:
        return UNREACHED
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> frozenset[str]:
    return frozenset(cls.__name__ for cls in type(error).__mro__)


def _switched_off() -> bool:
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in _SWITCHES)


def _switch() -> str:
    return next((name for name in _SWITCHES if os.environ.get(name)), "HF_HUB_OFFLINE")


def _brief(error: BaseException) -> str:
    """The class and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
