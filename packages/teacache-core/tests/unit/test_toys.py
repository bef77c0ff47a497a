"""The toys' vocabulary, drawing, codec and weights file, without mflux."""

from __future__ import annotations

import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn

from teacache.errors import AdapterNotInstalledError, OptionError, ToyPromptError
from teacache.testing.toys import codec, scenes, standins, toy, training


def test_importing_the_testing_package_is_light():
    """Red when `teacache.testing` or its toys' package starts to import mlx or mflux."""
    code = "import sys, teacache.testing, teacache.testing.toys.scenes; print(*{'mlx', 'mflux'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("prompt", scenes.EXAMPLES)
def test_examples_read_back_as_written(prompt):
    """Red when an example of the messages is no longer understood, or a scene's own prompt is another scene."""
    scene = scenes.parse(prompt)
    assert scene.prompt == prompt
    assert scenes.parse(scene.prompt) == scene


@pytest.mark.parametrize(
    "prompt",
    [
        "a red circle on the left and a blue square on the right, on white",
        "Left: red disc. Right: blue box. Background: white",
        "on a white background, red circle left, blue square",
        "red circle, blue square",
        "white background red circle left blue square right",
    ],
)
def test_plain_words_in_any_order(prompt):
    """Red when little words, synonyms, another order or a missing place and background change the scene."""
    assert scenes.parse(prompt).prompt == "red circle left, blue square right, white background"


def test_defaults_for_what_is_not_said():
    """Red when a lone shape is not centered, or something white is put on white."""
    assert scenes.parse("white ring").prompt == "white ring center, black background"
    assert scenes.parse("red ring right, blue circle").things[1].place == "left"


@pytest.mark.parametrize("prompt", ["", " ", ", the"])
def test_a_blank_prompt_asks_for_nothing(prompt):
    """Red when the negative prompt " ", which guidance uses, is refused or means a scene."""
    assert scenes.parse(prompt) is None
    assert set(scenes.word_numbers(None)) == {0}


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("a photo of a cat", "photo"),
        ("red left", "no shape"),
        ("circle left", "no colour"),
        ("red circle on red", "cannot be seen"),
        ("red circle left, blue ring left", "two different places"),
        ("red circle center, blue ring left", "two different places"),
        ("red circle, blue circle, green circle", "at most 2"),
        ("red circle on white, black background", "both white and black"),
        ("red circle left right", "belongs to no shape"),
    ],
)
def test_what_no_toy_has_seen_is_refused(prompt, reason):
    """Red when an unknown word or an untrained scene is drawn as something else, or the words known are not listed."""
    with pytest.raises(ToyPromptError, match=reason) as caught:
        scenes.parse(prompt)
    for word in (*scenes.COLOURS, *scenes.SHAPES, *scenes.PLACES):
        assert word in str(caught.value)


def test_the_words_are_the_ones_of_the_trained_weights():
    """Red when numpy's stream, a seed or the vocabulary's order changes: trained toys would forget their words."""
    vectors = scenes.embed(scenes.word_numbers(scenes.parse(scenes.EXAMPLES[0])))
    assert vectors.shape == (7, 64)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[:3, 0], [-0.744374, -0.595489, -1.596639], atol=1e-5)
    np.testing.assert_allclose(codec.frame(64)[0, :3], [-0.256654, -0.320877, -0.032648], atol=1e-5)
    np.testing.assert_allclose(codec.frame(128)[0, :3], [-0.173282, 0.215782, -0.02257], atol=1e-5)


def test_random_scenes_are_ones_that_can_be_asked_for():
    """Red when training draws what `parse` refuses, such as a shape in the background's colour."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        scene = scenes.random_scene(rng)
        assert scenes.parse(scene.prompt) == scene


def test_drawing_puts_colours_where_the_words_say():
    """Red when shapes land elsewhere, x and y are swapped, or a ring is filled."""
    picture = (scenes.draw(scenes.parse("red ring left, blue square bottom, yellow background"), 64) + 1) * 127.5
    colours = {name: np.array(value) for name, value in scenes.COLOURS.items()}

    def at(x, y):
        return min(colours, key=lambda name: np.abs(colours[name] - picture[y // 4, x // 4]).sum())

    assert at(72, 128) == "yellow"
    assert at(72, 92) == "red"
    assert at(128, 184) == "blue"
    assert at(128, 40) == at(240, 128) == "yellow"


def test_scenes_wander_only_when_asked():
    """Red when every seed would draw the same picture, or a drawing without a generator is not repeatable."""
    scene = scenes.parse(scenes.EXAMPLES[0])
    moved = scenes.draw(scene, rng=np.random.default_rng(0))
    assert np.array_equal(scenes.draw(scene), scenes.draw(scene))
    assert not np.array_equal(moved, scenes.draw(scene))


@pytest.mark.parametrize("width", [64, 128])
def test_codec_round_trip(width):
    """Red when the frame is not orthonormal, or tokens are cut and put together in different orders."""
    pictures = np.random.default_rng(0).uniform(-1, 1, (2, 8, 12, 3)).astype(np.float32)
    tokens = codec.encode(pictures, width)
    assert tokens.shape == (2, 24, width)
    np.testing.assert_allclose(codec.decode(tokens, 4, 6), pictures, atol=1e-5)
    np.testing.assert_array_equal(codec.from_grid(codec.to_grid(tokens, 4, 6)), tokens)


def test_grid_is_the_packing_of_the_pipelines():
    """Red when a token's numbers are not (channel, row, column): the pipelines pack latents that way."""
    tokens = np.arange(2 * 8).reshape(1, 2, 8)
    grid = codec.to_grid(tokens, 1, 2)
    assert grid.shape == (1, 2, 2, 4)
    assert grid[0, 0, :, :2].tolist() == [[0, 1], [2, 3]]
    assert grid[0, 1, :, 2:].tolist() == [[12, 13], [14, 15]]


@pytest.mark.parametrize("channels", [16, 32])
def test_picture_codec_keeps_a_drawn_scene(channels):
    """Red when image-to-image would start from another picture than the one given: wrong layout, scale or size."""
    stand_in = standins.PictureCodec(channels)
    small = scenes.draw(scenes.parse(scenes.EXAMPLES[0]))[None]
    latents = codec.to_grid(mx.array(codec.encode(small, 4 * channels)), 8, 8)
    picture = stand_in.decode(latents)
    assert picture.shape == (1, 3, 128, 128)
    again = stand_in.encode(picture)
    assert again.shape == latents.shape == (1, channels, 16, 16)
    kept = codec.decode(np.array(codec.from_grid(again)), 8, 8)
    assert np.abs(kept - small).mean() < 0.02


def test_enlarging_stays_in_range_and_keeps_flat_areas_flat():
    """Red when the sharpening overshoots or a flat picture gets a pattern."""
    small = mx.random.uniform(-1, 1, (1, 3, 4, 6), key=mx.random.key(0))
    large = standins.enlarge(small, 8)
    assert large.shape == (1, 3, 32, 48)
    assert small.min().item() - 1e-5 <= large.min().item() <= large.max().item() <= small.max().item() + 1e-5
    flat = standins.enlarge(mx.full((1, 3, 4, 4), 0.25), 8)
    assert mx.abs(flat - 0.25).max().item() < 1e-3


def test_replaced_puts_a_module_back():
    """Red when a training forward leaves its stand-in in the model, or loses the module's parameters."""
    model = nn.Sequential(nn.Linear(2, 3))
    model.extra = nn.Linear(2, 2)
    before = model.extra
    with standins.replaced(model, "extra", lambda x: x):
        assert model.extra(1) == 1
    assert model.extra is before
    assert "extra" in model.parameters()


def test_unknown_toy_is_refused():
    """Red when a typing mistake ends in an import error."""
    with pytest.raises(AdapterNotInstalledError, match="nonsense"):
        toy.find_toy("nonsense")


def test_missing_weights_name_the_command(tmp_path):
    """Red when a toy without weights ends in MLX's own message, which says nothing of training."""
    with pytest.raises(FileNotFoundError, match="teacache toy train"):
        toy.load_weights(nn.Linear(2, 2), tmp_path / "none.safetensors")


class Small(nn.Module):
    """A linear model of the velocity, enough to see a training loop work."""

    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(64, 64)]
        self.time = nn.Linear(1, 64)

    def __call__(self, tokens, sigmas):
        return self.blocks[0](tokens) + self.time(sigmas[:, None])[:, None]


SMALL = toy.Toy("small", "nowhere", 64, Small, lambda model: model, lambda model, x, words, s: model(x, s))
RECIPE = training.Recipe(steps=6, batch=4, warmup=2, save_every=2)


@pytest.mark.parametrize("wander", [0.0, 8.0])
def test_training_scenes_have_noise_of_unit_variance_and_known_words(wander):
    """Red when noisy tokens, sigmas and the velocity wanted do not belong together, or wandering breaks a batch."""
    recipe = training.Recipe(batch=64, wander=wander)
    noisy, words, sigmas, wanted = next(training._batches(SMALL, recipe, np.random.default_rng(0)))
    clean = noisy - sigmas[:, None, None] * wanted
    picture = codec.decode(np.array(clean), 8, 8)
    assert np.abs(picture).max() < 1.01
    assert abs(mx.std(clean + wanted).item() - 1) < 0.02
    assert 0.02 <= sigmas.min().item() < sigmas.max().item() <= 1
    assert words.shape == (64, 7, 64)


def test_training_lowers_the_loss_and_writes_half_precision(tmp_path):
    """Red when the optimisers are not applied to both kinds of parameters, or the averaged weights are not saved."""
    recipe = training.Recipe(steps=60, batch=8, warmup=5, average=0.9)
    first = training.train(SMALL, training.Recipe(steps=1, batch=8), tmp_path / "one.safetensors", say=str)
    report = training.train(SMALL, recipe, tmp_path / "w.safetensors", say=str)
    assert report.loss < first.loss
    weights, metadata = mx.load(str(tmp_path / "w.safetensors"), return_metadata=True)
    assert {value.dtype for value in weights.values()} == {mx.float16}
    assert metadata["steps"] == "60"
    begun = mx.load(str(tmp_path / "one.safetensors"))
    assert all(mx.abs(weights[name] - begun[name]).max().item() > 1e-3 for name in weights)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.safetensors", "w.safetensors"]


def test_interrupted_training_saves_and_goes_on(tmp_path):
    """Red when Ctrl-C loses the work, or `resume` begins anew or forgets the optimiser."""
    out = tmp_path / "w.safetensors"
    calls = 0

    def velocity(model, x, words, sigmas):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return model(x, sigmas)

    stopped = training.train(toy.Toy("s", "n", 64, Small, lambda m: m, velocity), RECIPE, out, say=str)
    assert (stopped.steps, stopped.interrupted) == (3, True)
    assert out.exists()
    said = []
    report = training.train(SMALL, RECIPE, out, resume=True, say=said.append)
    assert (report.steps, report.interrupted) == (6, False)
    assert said[-1].startswith("step 6/6")
    assert list(tmp_path.iterdir()) == [out]


def test_resume_without_a_checkpoint_is_refused(tmp_path):
    """Red when `resume` silently starts from random weights."""
    with pytest.raises(OptionError, match="Start without --resume"):
        training.train(SMALL, RECIPE, tmp_path / "w.safetensors", resume=True, say=str)
