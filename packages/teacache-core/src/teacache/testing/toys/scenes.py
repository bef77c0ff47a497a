"""What the toys know: a vocabulary, prompts in plain words, and drawn scenes. Imports numpy only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from teacache.errors import ToyPromptError

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 80, 220),
    "yellow": (240, 210, 50),
    "white": (245, 245, 245),
    "black": (20, 20, 20),
    "purple": (140, 60, 180),
    "orange": (240, 140, 40),
}
SHAPES = ("circle", "square", "triangle", "ring")
PLACES = {"left": (72, 128), "right": (184, 128), "top": (128, 72), "bottom": (128, 184), "center": (128, 128)}
NOTHING = "<null>"
VOCABULARY = (NOTHING, *COLOURS, *SHAPES, *PLACES)

MAX_OBJECTS = 2
WORDS_PER_SCENE = 1 + 3 * MAX_OBJECTS
WORD_WIDTH = 64

CANVAS = 256  # the units of PLACES and of every length below
_RADIUS = {1: 64, 2: 48}
_SQUARE_INSET = 8  # a square of the circle's half width looks larger than the circle
_RING_WIDTH = 22
_SAMPLES = 4  # per pixel and axis

_GROUND = ("background", "backdrop", "ground")
_SYNONYMS = {
    "centre": "center", "middle": "center", "up": "top", "upper": "top", "above": "top", "down": "bottom",
    "lower": "bottom", "below": "bottom", "disc": "circle", "disk": "circle", "ball": "circle", "box": "square",
    "violet": "purple", **{f"{shape}s": shape for shape in SHAPES}, **dict.fromkeys(_GROUND, "background"),
}  # fmt: skip
_FILLERS = frozenset(
    ["a", "an", "the", "of", "on", "in", "at", "to", "and", "with", "from", "by", "over", "side", "large", "big",
     "picture", "image", "painting", "drawing", "scene"]
)  # fmt: skip

EXAMPLES = (
    "red circle left, blue square right, white background",
    "yellow ring center, purple background",
    "green triangle top, orange square bottom, black background",
    "blue circle center, orange background",
    "white triangle left, red ring right, blue background",
    "black square center, yellow background",
    "purple ring top, green circle bottom, white background",
    "orange triangle right, black background",
)


@dataclass(frozen=True)
class Thing:
    """One drawn object: a colour, a shape and a place out of the vocabulary."""

    colour: str
    shape: str
    place: str


@dataclass(frozen=True)
class Scene:
    """A background and one or two things on it."""

    background: str
    things: tuple[Thing, ...]

    @property
    def prompt(self) -> str:
        """The plain words that `parse` turns back into this scene."""
        return ", ".join([f"{t.colour} {t.shape} {t.place}" for t in self.things] + [f"{self.background} background"])


def parse(prompt: str) -> Scene | None:
    """The scene that a prompt in plain words asks for; None for a blank prompt, which asks for nothing.

    Commas and little words ("a", "on the") may be left out. Without a background it is white, or black behind
    something white; a thing without a place takes the center when alone, else the first free side of left and right.

    Raises:
        ToyPromptError: a word is unknown, a colour is missing, or the scene is one that no toy has ever seen.
    """
    words = [_SYNONYMS.get(word, word) for word in re.findall(r"[^\W_]+", prompt.lower())]
    words = [word for word in words if word not in _FILLERS]
    if not words:
        return None
    background, found = _group(prompt, words)
    if not found:
        raise _refusal(prompt, "it names no shape")
    if len(found) > MAX_OBJECTS:
        raise _refusal(prompt, f"it names {len(found)} shapes and a toy knows scenes of at most {MAX_OBJECTS}")
    for thing in found:
        if "colour" not in thing:
            raise _refusal(prompt, f"the {thing['shape']} has no colour")
    if background is None:
        background = "black" if any(thing["colour"] == "white" for thing in found) else "white"
    taken = [thing.get("place") for thing in found]
    free = [place for place in (("center",) if len(found) == 1 else ("left", "right")) if place not in taken]
    things = tuple(Thing(t["colour"], t["shape"], t.get("place") or free.pop(0)) for t in found)
    if any(thing.colour == background for thing in things):
        raise _refusal(prompt, f"a {background} shape on a {background} background cannot be seen")
    if len(things) == 2 and (things[0].place == things[1].place or "center" in [t.place for t in things]):
        raise _refusal(prompt, "two shapes need two different places out of left, right, top and bottom")
    return Scene(background, things)


def _group(prompt: str, words: list[str]) -> tuple[str | None, list[dict[str, str]]]:
    """Put the words together into a background and descriptions of things, each with at least a shape."""
    background: str | None = None
    colour: str | None = None  # read, and not yet given to anything
    place: str | None = None  # read before the shape that it belongs to
    found: list[dict[str, str]] = []
    for word in words:
        if word in COLOURS:
            if colour is not None:
                background, colour = _only(prompt, background, colour), None
            colour = word
        elif word in SHAPES:
            thing = {"shape": word}
            if colour is not None:
                thing["colour"] = colour
            if place is not None:
                thing["place"] = place
            found.append(thing)
            colour = place = None
        elif word in PLACES:
            if found and "place" not in found[-1] and colour is None:
                found[-1]["place"] = word
            else:
                place = word
        elif word == "background":
            if colour is not None:
                background, colour = _only(prompt, background, colour), None
        else:
            raise _refusal(prompt, f"the word {word!r} is unknown")
    if colour is not None:
        background = _only(prompt, background, colour)
    if place is not None:
        raise _refusal(prompt, f"the place {place!r} belongs to no shape")
    return background, found


def _only(prompt: str, background: str | None, colour: str) -> str:
    if background not in (None, colour):
        raise _refusal(prompt, f"both {background} and {colour} would be the background")
    return colour


def _refusal(prompt: str, reason: str) -> ToyPromptError:
    return ToyPromptError(
        f"The toy cannot read the prompt {prompt!r}: {reason}. Colours: {', '.join(COLOURS)}. "
        f"Shapes: {', '.join(SHAPES)}. Places: {', '.join(PLACES)}. Write for example {EXAMPLES[0]!r}."
    )


def word_numbers(scene: Scene | None) -> list[int]:
    """Indices into `VOCABULARY`, `WORDS_PER_SCENE` of them: the background, then each thing's colour, shape, place."""
    words = [NOTHING] * WORDS_PER_SCENE
    if scene is not None:
        words[0] = scene.background
        for index, thing in enumerate(scene.things):
            words[1 + 3 * index : 4 + 3 * index] = thing.colour, thing.shape, thing.place
    return [VOCABULARY.index(word) for word in words]


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    # The seed belongs to the trained weights: another table makes every toy forget its words.
    rng = np.random.default_rng(7)
    words = rng.standard_normal((len(VOCABULARY), WORD_WIDTH)).astype(np.float32)
    positions = rng.standard_normal((WORDS_PER_SCENE, WORD_WIDTH)).astype(np.float32) * 0.5
    return words, positions


def embed(numbers: np.ndarray | list[int]) -> np.ndarray:
    """Word numbers (..., WORDS_PER_SCENE) as float32 vectors (..., WORDS_PER_SCENE, WORD_WIDTH)."""
    words, positions = _tables()
    return words[np.asarray(numbers)] + positions


def random_scene(rng: np.random.Generator, count: int | None = None) -> Scene:
    """A scene of one or two things, none in the background's colour, two never in one place."""
    colours, places = list(COLOURS), list(PLACES)
    background = colours[rng.integers(len(colours))]
    visible = [colour for colour in colours if colour != background]
    count = int(rng.integers(1, MAX_OBJECTS + 1)) if count is None else count
    chosen = rng.permutation(len(places) if count == 1 else len(places) - 1)[:count]
    things = tuple(
        Thing(visible[rng.integers(len(visible))], SHAPES[rng.integers(len(SHAPES))], places[place]) for place in chosen
    )
    return Scene(background, things)


def draw(scene: Scene, size: int = 16, *, rng: np.random.Generator | None = None, wander: float = 8.0) -> np.ndarray:
    """The scene as a picture (size, size, 3), float32 in [-1, 1], each pixel the mean of its samples.

    With `rng` every thing is moved by up to `wander` units of the 256-unit canvas and resized by up to 8 %.
    """
    count = size * _SAMPLES
    axis = (np.arange(count, dtype=np.float32) + 0.5) * (CANVAS / count)
    picture = np.empty((count, count, 3), np.float32)
    picture[:] = COLOURS[scene.background]
    for thing in scene.things:
        x, y = PLACES[thing.place]
        radius = float(_RADIUS[len(scene.things)])
        if rng is not None:
            moved = rng.uniform(-wander, wander, 2)
            x, y = x + moved[0], y + moved[1]
            radius *= rng.uniform(0.92, 1.08)
        picture[_inside(thing.shape, axis[None, :] - x, axis[:, None] - y, radius)] = COLOURS[thing.colour]
    picture = picture.reshape(size, _SAMPLES, size, _SAMPLES, 3).mean(axis=(1, 3))
    return picture / 127.5 - 1


def _inside(shape: str, x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    if shape == "square":
        return np.maximum(np.abs(x), np.abs(y)) <= radius - _SQUARE_INSET
    if shape == "triangle":
        return (np.abs(y) <= radius) & (2 * np.abs(x) <= y + radius)
    distance = np.hypot(x, y)
    return (distance <= radius) & (distance >= (radius - _RING_WIDTH if shape == "ring" else 0))
