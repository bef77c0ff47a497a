"""A pytest plugin: the four oracles as tests of your own model. Imports no mlx and no mflux before a test asks.

It is no entry point: pytest would load one in every project of an environment that has teacache. A project asks for it
in its top `conftest.py`, or on the command line with `-p teacache.testing.pytest_plugin`::

    pytest_plugins = ["teacache.testing.pytest_plugin"]

Then one function is four tests, one for each oracle::

    @pytest.mark.oracles(band=(1, 5), least_ssim=0.95)
    def test_my_model(oracle):
        oracle(Subject(adapter=ADAPTER, make_model=make, generate=generate, steps=8))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from teacache.testing.oracles import Result, Subject

ORACLES = ("drift", "neutrality", "equivalence", "quality")
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "drift": ("package",),
    "neutrality": (),
    "equivalence": ("parts", "tolerance"),
    "quality": ("band", "options", "least_ssim", "least_psnr", "source"),
}
"""What the marker hands to each oracle, by the names of the oracle's own parameters."""

MARK = (
    "oracles(*names, band, options, least_ssim, least_psnr, source, parts, tolerance, package): which oracles of "
    "teacache the `oracle` fixture asks (default: all four), and what it hands to them"
)
RESULTS = pytest.StashKey[list["Result"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that writes what was found."""
    parser.getgroup("teacache").addoption(
        "--oracles-json", metavar="FILE", default=None, help="Write the results of teacache's oracles to this file."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known, for `--strict-markers`."""
    config.addinivalue_line("markers", MARK)
    config.stash[RESULTS] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes one test for each oracle of a function that takes `oracle`."""
    if "oracle" in metafunc.fixturenames:
        names, _ = _wishes(metafunc.definition)
        metafunc.parametrize("oracle", names, indirect=True)


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> Callable[[Subject], Result]:
    """Asks one oracle of a `Subject` and returns its result; a failure is an `OracleError` with the table.

    Drift of an adapter that ships no data is skipped. Quality without `band` asks for what a plan of every other step
    reuses by construction.
    """
    name: str = request.param
    _, settings = _wishes(request.node)

    def ask(subject: Subject) -> Result:
        result = _ask(name, subject, {key: settings[key] for key in SETTINGS[name] if key in settings})
        request.config.stash[RESULTS].append(result)
        return result.require()

    return ask


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints a line for each result, with `-v` the whole table."""
    results = config.stash[RESULTS]
    if results:
        terminalreporter.section("oracles of teacache")
    for result in results:
        text = str(result)
        terminalreporter.write_line(text if config.get_verbosity() > 0 else text.partition("\n")[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the results where `--oracles-json` names a file."""
    path = session.config.getoption("--oracles-json")
    if path is not None:
        listed = [json.loads(result.to_json()) for result in session.config.stash[RESULTS]]
        Path(path).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8", newline="\n")


def _ask(name: str, subject: Subject, settings: dict[str, Any]) -> Result:
    from teacache.testing import oracles
    from teacache.testing.oracles.expected import by_construction

    if name == "drift":
        adapter = subject.adapter
        if adapter.tolerance is None and adapter.calibrations is None and "package" not in settings:
            pytest.skip(f"the adapter {adapter.name!r} ships no data, so none can drift")
        return oracles.drift(adapter, **settings)
    if name == "quality" and "band" not in settings:
        certain = by_construction(subject.steps)
        settings = {"options": certain.options, **settings, "band": certain.band}
    asked: Callable[..., Result] = getattr(oracles, name)
    return asked(subject, **settings)


def _wishes(node: pytest.Item | Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The oracles that are wanted and what is handed to them: the nearest marker's word holds."""
    names: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    for mark in node.iter_markers("oracles"):
        names = names or mark.args
        settings = {**mark.kwargs, **settings}
    known = {setting for listed in SETTINGS.values() for setting in listed}
    unknown = [name for name in names if name not in ORACLES] + [key for key in settings if key not in known]
    if unknown:
        raise pytest.UsageError(
            f"{node.nodeid}: @pytest.mark.oracles was given {unknown[0]!r}; expected some of {', '.join(ORACLES)}, "
            f"and {', '.join(sorted(known))} by name."
        )
    return names or ORACLES, settings
