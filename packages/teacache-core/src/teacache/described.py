"""Checks what adapters say of themselves, as it is said. Imports the errors alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teacache.errors import AdapterDescriptionError

HOSTS = ("mflux", "loop")


def check_body(body: Any) -> None:
    """Checks the types of a `teacache.adapter.Body`.

    Raises:
        AdapterDescriptionError: a field has another type; so do the other functions here.
    """
    _check(body, "blocks", bool(body.blocks) and _texts(body.blocks), "the names of one list of blocks or more")
    _check(body, "image", isinstance(body.image, str | int), "a keyword or a position")
    _check(body, "text", isinstance(body.text, str | int | None), "a keyword, a position or None")
    _check(body, "tail", isinstance(body.tail, str) or callable(body.tail), "a name or a function")
    _check(body, "drop_on_reuse", _texts(body.drop_on_reuse), "keywords")


def check_signal(signal: Any) -> None:
    """Checks the types of a `teacache.adapter.Signal`."""
    _check(signal, "read", callable(signal.read), "a function")
    _check(signal, "tensor", isinstance(signal.tensor, str), "a text")
    _check(signal, "tokens", signal.tokens in ("target", "all"), "'target' or 'all'")


def check_pipeline(pipeline: Any) -> None:
    """Checks the types of a `teacache.adapter.Pipeline`."""
    _check(pipeline, "cls", _reference(pipeline.cls), "'package:Class'")
    _check(pipeline, "transformer", isinstance(pipeline.transformer, str | None), "a name or None")
    _check(pipeline, "factories", _texts(pipeline.factories), "names")
    _check(pipeline, "summary", isinstance(pipeline.summary, str), "a text")


def check_adapter(adapter: Any, *, contract: int, pipeline: type, body: type, signal: type) -> None:
    """Checks the types of a `teacache.adapter.Adapter`; what its other parts are is told by their classes."""
    pipelines = adapter.pipelines if isinstance(adapter.pipelines, tuple | list) else (None,)
    refused = adapter.refused.items() if isinstance(adapter.refused, Mapping) else ((None, None),)
    many = adapter.branches_in_batch
    span = ("", "") if adapter.host_versions is None else adapter.host_versions
    _check(adapter, "name", isinstance(adapter.name, str) and bool(adapter.name.strip()), "a text that is not empty")
    _check(adapter, "pipelines", all(isinstance(one, pipeline) for one in pipelines), "Pipeline objects")
    _check(adapter, "body", isinstance(adapter.body, body), "a Body")
    _check(adapter, "signal", isinstance(adapter.signal, signal), "a Signal")
    _check(adapter, "transformer", _reference(adapter.transformer), "'package:Class'")
    _check(adapter, "contract", type(adapter.contract) is int, "a whole number")
    # A newer contract may know other hosts; the adapter is then set aside for its contract.
    _check(adapter, "host", adapter.contract != contract or adapter.host in HOSTS, " or ".join(map(repr, HOSTS)))
    _check(adapter, "target_tokens", callable(adapter.target_tokens), "a function")
    _check(adapter, "branch_key", isinstance(adapter.branch_key, str | None), "a keyword or None")
    _check(adapter, "branches_in_batch", type(many) is int and many > 0, "a whole number from 1 up")
    _check(
        adapter, "refused", all(_reference(one) and isinstance(why, str) for one, why in refused), "reasons by class"
    )
    for name in ("calibrations", "tolerance", "toy"):
        value = getattr(adapter, name)
        _check(adapter, name, value is None or _reference(value), "'package:name' or None")
    _check(adapter, "host_versions", _texts(span) and len(span) == 2, "(oldest, newest) or None")


def _check(described: Any, name: str, right: bool, expected: str) -> None:
    if not right:
        raise AdapterDescriptionError(
            f"{type(described).__name__}({name}={getattr(described, name)!r}): expected {expected}. Correct the "
            "adapter's description."
        )


def _texts(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)


def _reference(value: Any) -> bool:
    return isinstance(value, str) and ":" in value
