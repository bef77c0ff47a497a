"""Draws docs/drawings/*.svg: the flow of a step, the boundary, and a plan from the kernel of the FLUX.2 toy.

python .ci/drawings.py            # all three; the plan makes two small pictures first
python .ci/drawings.py step boundary
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs/drawings"
INK, PALE, TEAL, AMBER = "#222", "#f3f4f6", "#0f766e", "#f59e0b"
STYLE = "font-family='system-ui, sans-serif' font-size='14'"


def box(x: float, y: float, width: float, height: float, text: str, fill: str = PALE) -> str:
    """A box with a line of text in its middle."""
    ink = "#fff" if fill == TEAL else INK
    return (
        f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='6' fill='{fill}' stroke='{INK}'/>"
        f"<text x='{x + width / 2}' y='{y + height / 2 + 5}' text-anchor='middle' fill='{ink}'>{text}</text>"
    )


def label(x: float, y: float, text: str, anchor: str = "start") -> str:
    """A line of text."""
    return f"<text x='{x}' y='{y}' text-anchor='{anchor}' fill='{INK}'>{text}</text>"


def arrow(*points: tuple[float, float]) -> str:
    """A line through these points, with a head at the last."""
    path = " ".join(f"{x},{y}" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{INK}' stroke-width='1.5' marker-end='url(#head)'/>"


def drawing(width: int, height: int, title: str, *parts: str) -> str:
    """The file: white ground, so that it can be read on a dark page too."""
    head = (
        "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' orient='auto'>"
        f"<path d='M0,0 L8,4 L0,8 z' fill='{INK}'/></marker></defs>"
    )
    ground = f"<rect width='{width}' height='{height}' rx='8' fill='#fff'/>"
    opening = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' {STYLE}>"
    return "\n".join([opening, f"<title>{title}</title>", head, ground, *parts, "</svg>", ""])


def step() -> str:
    """What happens in one step, with the gate and with a plan."""
    return drawing(
        760,
        300,
        "One step: with the gate the prelude runs and a decision follows; with a plan the decision is known beforehand",
        label(20, 30, "gate"),
        box(20, 45, 110, 40, "prelude"),
        arrow((130, 65), (170, 65)),
        box(170, 45, 130, 40, "changed much?", AMBER),
        arrow((300, 55), (370, 40)),
        label(322, 38, "yes", "end"),
        box(370, 20, 170, 36, "all blocks", TEAL),
        arrow((300, 75), (370, 92)),
        label(322, 100, "no", "end"),
        box(370, 74, 170, 36, "tokens + residual"),
        arrow((540, 38), (590, 60)),
        arrow((540, 92), (590, 70)),
        box(590, 45, 70, 40, "tail"),
        arrow((660, 65), (720, 65)),
        label(20, 175, "plan"),
        box(20, 190, 150, 40, "step in the plan?", AMBER),
        arrow((170, 200), (240, 185)),
        label(192, 183, "yes", "end"),
        box(240, 165, 300, 36, "the whole model", TEAL),
        arrow((170, 220), (240, 237)),
        label(192, 246, "no", "end"),
        box(240, 219, 300, 36, "no model call: carry the velocity"),
        arrow((540, 183), (590, 205)),
        arrow((540, 237), (590, 215)),
        box(590, 190, 110, 40, "scheduler"),
        label(20, 285, "Dark: costs a model call. Everything else is next to free."),
    )


def boundary() -> str:
    """Where a transformer is cut, without copying its forward."""
    blocks = [box(230 + 62 * index, 80, 52, 60, f"{index}", TEAL) for index in range(6)]
    return drawing(
        760,
        250,
        "The boundary: prelude, blocks and tail of the model's own forward; only the walk over the blocks is steered",
        box(30, 80, 150, 60, "prelude"),
        arrow((180, 110), (228, 110)),
        *blocks,
        arrow((594, 110), (630, 110)),
        box(630, 80, 100, 60, "tail"),
        label(105, 165, "embed, time, refiners", "middle"),
        label(410, 165, "body: the block lists", "middle"),
        label(680, 165, "norm, projection", "middle"),
        f"<line x1='205' y1='55' x2='205' y2='185' stroke='{AMBER}' stroke-width='3' stroke-dasharray='6 4'/>",
        f"<line x1='612' y1='55' x2='612' y2='185' stroke='{AMBER}' stroke-width='3' stroke-dasharray='6 4'/>",
        label(205, 45, "tokens go in", "middle"),
        label(612, 45, "tokens come out", "middle"),
        f"<path d='M205,200 C300,235 520,235 612,200' fill='none' stroke='{INK}' stroke-dasharray='3 4'/>",
        label(410, 242, "reused: tokens + (out - in) of the last computed step", "middle"),
    )


def plan() -> str:
    """A kernel as it was recorded, and the steps that are computed for 2x and 3x."""
    products, rows = recorded_plan()
    steps, cell = len(products), 11
    largest, least = max(map(max, products)), min(map(min, products))
    cells = [
        f"<rect x='{30 + cell * b}' y='{50 + cell * a}' width='{cell}' height='{cell}' "
        f"fill='rgb{_shade((value - least) / (largest - least))}'/>"
        for a, row in enumerate(products)
        for b, value in enumerate(row)
    ]
    lines = []
    for number, (name, computed) in enumerate(rows):
        y = 110 + 90 * number
        lines.append(label(400, y - 12, name))
        lines += [
            f"<rect x='{400 + cell * index}' y='{y}' width='{cell - 1}' height='24' "
            f"fill='{TEAL if index in computed else '#cbd5e1'}'/>"
            for index in range(steps)
        ]
    return drawing(
        760,
        400,
        "The kernel of one recorded run, and the steps that a plan computes",
        label(30, 30, "kernel: inner products of the velocities of two steps"),
        *cells,
        label(400, 60, "planned from it: dark is computed"),
        *lines,
    )


def _shade(share: float) -> tuple[int, int, int]:
    return (round(245 - 230 * share), round(250 - 132 * share), round(250 - 140 * share))


def recorded_plan() -> tuple[Sequence[Sequence[float]], list[tuple[str, set[int]]]]:
    """Records the FLUX.2 toy in a folder of its own and plans two speeds from it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TEACACHE_DATA"] = folder
        import teacache
        from teacache.store import Recording, Store
        from teacache.testing.toys.scenes import EXAMPLES
        from teacache.testing.toys.toy import toy_pipeline

        model: Any = toy_pipeline("flux2")
        arguments = {"prompt": EXAMPLES[0], "num_inference_steps": 30, "height": 128, "width": 128, "guidance": 2.0}
        rows = []
        for speedup in (2.0, 3.0):
            with teacache.wrap(model, speedup=speedup) as cached:
                for seed in (1, 2) if not rows else (2,):
                    model.generate_image(seed=seed, **arguments)
                computed = {record.step for record in cached.stats.last.records if record.action == "compute"}
                rows.append((f"{speedup:g}x: {len(computed)} of 30", computed))
        found = [recording for _, recording in Store().all() if isinstance(recording, Recording)]
        return found[0].kernel.products.tolist(), rows


DRAWINGS: dict[str, Callable[[], str]] = {"step": step, "boundary": boundary, "plan": plan}


def main(names: list[str]) -> int:
    """Draws those that are named, or all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or DRAWINGS:
        (FOLDER / f"{name}.svg").write_text(DRAWINGS[name](), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
