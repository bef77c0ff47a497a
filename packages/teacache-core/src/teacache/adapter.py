"""The adapter contract: what a package says about a family of models. Data and small pure functions, no mutation.

Must not import mlx or mflux: adapters are discovered without either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from teacache.described import check_adapter, check_body, check_pipeline, check_signal
from teacache.errors import AdapterDescriptionError

if TYPE_CHECKING:
    import mlx.core as mx

CONTRACT = 1
"""Version of this contract. An adapter states the one that it was written for; another version is set aside."""

Argument = str | int
"""A block's argument: its keyword, or its position where the model passes it by position."""


def class_matches(cls: type, reference: str) -> bool:
    """Tells whether a class, or one that it derives from, is the one that a reference names.

    Args:
        cls: the class of a model.
        reference: ``"package:Class"``; the class may live anywhere below the package, its name must be equal.
    """
    package, _, name = reference.partition(":")
    return any(
        base.__qualname__ == name and (base.__module__ == package or base.__module__.startswith(package + "."))
        for base in cls.__mro__
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCall:
    """The call of the first block, as it reached the body boundary. The block has not run.

    Attributes:
        block: the first block.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """

    block: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __getitem__(self, argument: Argument) -> Any:
        """Returns one argument by keyword or position."""
        try:
            return self.args[argument] if isinstance(argument, int) else self.kwargs[argument]
        except (KeyError, IndexError):
            given = [*range(len(self.args)), *self.kwargs]
            raise AdapterDescriptionError(
                f"The adapter reads the argument {argument!r} of the first block "
                f"({type(self.block).__name__}), which is called with {given}. Correct the adapter's description."
            ) from None

    def run(self) -> Any:
        """Runs the block as it was called."""
        return self.block(*self.args, **self.kwargs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """Where the body of a transformer begins and ends.

    Attributes:
        blocks: the attributes of the transformer that hold its block lists, in the order in which they run. The
            forward must iterate over each of them once (``for block in self.blocks``).
        image: the first block's argument that holds the image tokens, shape (..., tokens, width).
        text: the first block's argument that holds the text tokens, None where image and text share one stream.
        returns: what a block of the first list returns, named by its arguments: ``("text", "image")`` stands for a
            pair; None for the image tokens alone.
        tail: the attribute of the transformer that is called first with the tokens behind the body; or a function
            from the transformer to (mapping, key) where it lies deeper.
        drop_on_reuse: keyword arguments of the transformer that are set to None on a reused step, because what they
            bring is in the residual already (ControlNet samples).
    """

    blocks: tuple[str, ...]
    image: Argument = "hidden_states"
    text: Argument | None = None
    returns: tuple[Literal["image", "text"], ...] | None = None
    tail: str | Callable[[Any], tuple[MutableMapping[str, Any], str]] = "norm_out"
    drop_on_reuse: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses a description of another type: found out later, it would stop the search for other adapters."""
        check_body(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """What the gate compares from step to step.

    Attributes:
        read: from the first block's call to the signal, shape (..., tokens, width). Must not run the whole body.
        tensor: a name for what is read. A polynomial fitted on another tensor is not used.
        tokens: ``"target"``: cut to the target tokens by core; ``"all"``: taken as it is.
    """

    read: Callable[[BlockCall], mx.array]
    tensor: str
    tokens: Literal["target", "all"] = "target"

    def __post_init__(self) -> None:
        """Refuses a description of another type: found out later, it would stop the search for other adapters."""
        check_signal(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """One class whose objects `teacache.wrap` takes.

    Attributes:
        cls: ``"package:Class"``, see `class_matches`.
        transformer: the attribute that holds the transformer; None where the wrapped object is the transformer.
        factories: attributes that make the function which predicts one step, all branches in one call
            (``model._predict(transformer)``). None listed: each call of the transformer is one branch.
        summary: what the pipeline makes, in two or three words, for tables.
    """

    cls: str
    transformer: str | None = "transformer"
    factories: tuple[str, ...] = ()
    summary: str = "text-to-image"

    def __post_init__(self) -> None:
        """Refuses a description of another type: found out later, it would stop the search for other adapters."""
        check_pipeline(self)

    @property
    def name(self) -> str:
        """The class name alone."""
        return self.cls.partition(":")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapter:
    """Everything that core needs to know about one family. The plugin hook returns instances of it.

    Attributes:
        name: the family's name, as in ``adapter="flux2"``.
        contract: the contract version that the adapter was written for, as a number: `CONTRACT` would always match.
        pipelines: the classes that it serves.
        body: where the body begins and ends.
        signal: what the gate compares.
        transformer: ``"package:Class"`` of the transformer that the description fits.
        host: whose loop the pipelines run in: ``"mflux"``, or ``"loop"`` for `Handle.run`.
        target_tokens: from the picture's tokens, as the host counts them, to the target tokens of the image stream
            (a family that pads its stream counts the padding).
        branch_key: the keyword argument of a transformer call that tells the branches apart (the text embeddings);
            None where the factories hold all branches.
        branches_in_batch: how many branches one call carries along its first axis.
        refused: classes of the family that cannot be cached, with the reason.
        calibrations: ``"package:folder"`` of the adapter's calibration files.
        tolerance: ``"package:file"`` of the bounds of its oracles, as `teacache tolerance record` wrote it.
        toy: ``"module:NAME"`` of a `teacache.testing.toys.Toy`.
        host_versions: (oldest, newest) version of the host package that the adapter was tested with.
    """

    name: str
    pipelines: tuple[Pipeline, ...]
    body: Body
    signal: Signal
    transformer: str
    contract: int
    host: Literal["mflux", "loop"] = "mflux"
    target_tokens: Callable[[int], int] = field(default=int)
    branch_key: str | None = None
    branches_in_batch: int = 1
    refused: Mapping[str, str] = field(default_factory=dict)
    calibrations: str | None = None
    tolerance: str | None = None
    toy: str | None = None
    host_versions: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuses a description of another type: found out later, it would stop the search for other adapters."""
        check_adapter(self, contract=CONTRACT, pipeline=Pipeline, body=Body, signal=Signal)

    def target_of(self, image_tokens: int | None) -> int | None:
        """Returns the target tokens of a picture with so many tokens, as the host counts them; None for all.

        Raises:
            AdapterDescriptionError: `target_tokens` fails, or gives no number of tokens.
        """
        if image_tokens is None:
            return None
        try:
            count = self.target_tokens(image_tokens)
        except Exception as error:
            raise AdapterDescriptionError(
                f"target_tokens({image_tokens}) of the adapter {self.name!r} fails ({error!r}). Correct it."
            ) from error
        if type(count) is not int or count < 1:
            raise AdapterDescriptionError(
                f"target_tokens({image_tokens}) of the adapter {self.name!r} is {count!r}; expected a whole number "
                "from 1 up. Correct it."
            )
        return count

    def pipeline_for(self, cls: type) -> Pipeline | None:
        """Returns the description that fits a class, or None. A refused class fits none."""
        if self.refusal_for(cls) is not None:
            return None
        return next((pipeline for pipeline in self.pipelines if class_matches(cls, pipeline.cls)), None)

    def refusal_for(self, cls: type) -> str | None:
        """Returns why a class of this family cannot be cached, or None."""
        return next((reason for reference, reason in self.refused.items() if class_matches(cls, reference)), None)
