"""What `wrap` was given, where it is no pipeline at all. Must not import mlx or mflux."""

from __future__ import annotations

import os
from typing import Any

from teacache.adapter import Adapter, class_matches
from teacache.errors import UnknownModelError
from teacache.plugins import adapters


def check_given(model: Any, adapter: str | Adapter | None = None) -> None:
    """Refuses what people give instead of a pipeline.

    Args:
        model: what was given.
        adapter: the adapter that was given with it; one of the user's own may describe a bare transformer.

    Raises:
        UnknownModelError: it is a class, nothing, a name or another plain value, or a pipeline's transformer.
    """
    cls = type(model)
    if isinstance(model, type):
        raise UnknownModelError(
            f"wrap({model.__name__}) was given the class; expected an object of it. Build the model first, then wrap "
            "that."
        )
    if model is None:
        raise UnknownModelError(
            "wrap(None) was given; expected a pipeline. What made the model returned nothing, or its name was set to "
            "None since."
        )
    if isinstance(model, str | os.PathLike):
        raise UnknownModelError(
            f"wrap({str(model)!r}) was given a name; expected a pipeline that holds its weights. Load the model with "
            "mflux first, then wrap that object; to choose among checkpoints, say wrap(model, checkpoint=...)."
        )
    if cls.__module__ == "builtins":
        raise UnknownModelError(f"wrap(...) was given a {cls.__name__}; expected a pipeline, one at a time.")
    described = [row.adapter for row in adapters() if row.status == "working" and row.adapter is not None]
    if isinstance(adapter, Adapter):
        described.append(adapter)
    if any(one.pipeline_for(cls) is not None for one in described):
        return
    for one in described:
        if class_matches(cls, one.transformer):
            names = ", ".join(pipeline.name for pipeline in one.pipelines)
            raise UnknownModelError(
                f"wrap(...) was given a transformer ({cls.__name__}); expected the pipeline that holds it ({names}). "
                "Give the pipeline, not its transformer: wrap(model), not wrap(model.transformer)."
            )
