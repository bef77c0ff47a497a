"""Hosts: the programs in whose loop a wrapped model runs. The contract, and the way to the right one.

Must not import mflux; `teacache.hosts.mflux` is imported only for models that mflux made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from teacache.adapter import Pipeline
    from teacache.changes import Changes
    from teacache.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a host knows of the weights that a model holds.

    Attributes:
        name: what the weights were loaded as.
        base: the checkpoint that they are declared, or guessed, to derive from.
        altered: a LoRA or the like changes them.
    """

    name: str | None = None
    base: str | None = None
    altered: bool = False


LOADED_AS = "_teacache_loaded_as"
"""Attribute of a pipeline: the path or name that its weights were loaded from, where somebody saw it."""


def names_from_config(config: Any, *, path: str | None = None, altered: bool = False) -> Names:
    """Reads a config of mflux's shape.

    Args:
        config: has `model_name` and `base_model`; mflux fills in a base also where it only guessed it from a name.
        path: where the weights were loaded from, None for the config's own name. Under another name than the
            config's they are only declared to be what the config says.
        altered: a LoRA or the like changes them.
    """
    if path is None or path == config.model_name:
        return Names(name=config.model_name, base=config.base_model, altered=altered)
    return Names(name=path, base=config.base_model or config.model_name, altered=altered)


class Host(Protocol):
    """Where runs begin, steps end and runs end."""

    def install(self, model: Any, pipeline: Pipeline, session: Session, changes: Changes) -> None:
        """Ties a session to a model's loop. Every change goes through `changes`."""

    def names(self, model: Any) -> Names:
        """Returns what is known of the model's weights."""

    def version(self) -> str | None:
        """Returns the host package's version; None where there is none."""


def host_for(name: str) -> Host:
    """Returns the host that an adapter names, importing it."""
    if name == "mflux":
        from teacache.hosts.mflux import MfluxHost

        return MfluxHost()
    from teacache.hosts.loop import LoopHost

    return LoopHost()
