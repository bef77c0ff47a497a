"""The command line where mflux is not installed: help, errors, warnings, interruptions, the list of adapters."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import teacache.plugins
from teacache.adapter import CONTRACT, Adapter, Body, Pipeline, Signal
from teacache.cli import main
from teacache.discovery import InstalledAdapter
from teacache.errors import PluginWarning, TeaCacheError

WORKING = InstalledAdapter(
    "fish",
    "teacache-fish",
    "2.1",
    "working",
    adapter=Adapter(
        name="fish",
        contract=1,
        transformer="fish:Fish",
        pipelines=(Pipeline(cls="fish:FishPipeline", summary="fish from text"), Pipeline(cls="fish:FishEdit")),
        body=Body(blocks=("blocks",)),
        signal=Signal(read=lambda call: call["x"], tensor="x"),
    ),
)
BROKEN = InstalledAdapter("bird", "teacache-bird", "0.3", "broken", error=ImportError("no [wings] here"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Puts something in the place of the list of adapters."""
    return lambda find: monkeypatch.setattr(teacache.plugins, "adapters", find)


def raising(error: BaseException):
    def find() -> None:
        raise error

    return find


def one_line(text: str) -> str:
    """The text, which must be one line of the program's."""
    assert text.startswith("teacache: "), text
    assert text.count("\n") == 1, text
    assert text.endswith("\n"), text
    return text


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a command is not registered, or `teacache` alone is called a mistake."""
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {command} " in shown for command in ("demo", "adapters", "toy"))


@pytest.mark.parametrize("command", ["demo", "adapters", "toy", "toy train", "toy fit"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a help text is empty, or its example is not on a line that can be copied."""
    assert main([*command.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: teacache {command} ")
    assert lines[2].strip()
    assert command == "toy" or any(line.strip().startswith(f"teacache {command}") for line in lines)


def test_help_loads_nothing_heavy() -> None:
    """Red when an import at the top of a command makes `teacache --help` take longer than 0.3 s."""
    script = (
        "import sys; from teacache.cli import main; code = main(['--help']); "
        "heavy = {'mlx', 'mflux', 'numpy', 'rich', 'PIL', 'skimage', 'pluggy', 'tqdm'} & "
        "{name.partition('.')[0] for name in sys.modules}; sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when the version is written down twice, or read from another distribution."""
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"teacache {version('teacache-core')}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dmeo"], "dmeo"),
        (["demo", "--tresh", "1"], "--tresh"),
        (["demo", "--steps", "none"], "--steps"),
        (["demo", "--steps", "0"], "--steps"),
        (["demo", "extra"], "extra"),
        (["toy", "train", "flux2"], "--out"),
        (["toy", "fit"], "FAMILY"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a mistyped option ends in a traceback, in several lines, or in another exit code than 2."""
    assert main(arguments) == 2
    line = one_line(capsys.readouterr().err)
    assert says in line
    assert "--help" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "no/such/folder.png"], "no folder"),
        (["--out", "picture.jpg"], ".png"),
        (["--prompt", "red circle", "--prompt", "a purple elephant"], "'elephant' is unknown"),
        (["--guidance", "nan"], "--guidance"),
        (["--family", "nosuch"], "nosuch"),
    ],
)
def test_demo_refuses_before_it_works(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Red when a wrong option of the demo is noticed after a minute of work, or leaves something behind."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *arguments]) == 2
    assert says in one_line(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_teacache_are_one_line(installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a typed error reaches the user as a traceback, or its line breaks make several lines of it."""
    installed(raising(TeaCacheError("this was given;\n   do that")))
    assert main(["adapters"]) == 2
    assert one_line(capsys.readouterr().err) == "teacache: this was given; do that\n"


def test_debug_shows_the_traceback(installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when TEACACHE_DEBUG=1 hides where an error comes from."""
    installed(raising(TeaCacheError("wrong")))
    monkeypatch.setenv("TEACACHE_DEBUG", "1")
    with pytest.raises(TeaCacheError, match="wrong"):
        main(["adapters"])


def test_bugs_are_not_hidden(installed) -> None:
    """Red when an error that is no user's mistake is made one line of."""
    installed(raising(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        main(["adapters"])


@pytest.mark.parametrize("value", ["", "0"])
def test_debug_can_be_switched_off(
    value: str, installed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when TEACACHE_DEBUG=0 shows tracebacks."""
    installed(raising(TeaCacheError("wrong")))
    monkeypatch.setenv("TEACACHE_DEBUG", value)
    assert main(["adapters"]) == 2
    one_line(capsys.readouterr().err)


def test_a_broken_installation_is_one_line(installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when MLX without a backend ends in a traceback, or every failing import is taken for it."""
    installed(raising(ImportError("libmlx.so: cannot open shared object file", name="mlx.core")))
    assert main(["adapters"]) == 1
    assert "teacache doctor" in one_line(capsys.readouterr().err)
    installed(raising(ImportError("a bug", name="teacache.nosuch")))
    with pytest.raises(ImportError, match="a bug"):
        main(["adapters"])


def stopped_by_the_host() -> RuntimeError:
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("stopped at step 3") from None
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), stopped_by_the_host()], ids=["python's", "the host's own"])
def test_interruption_is_one_line(error: BaseException, installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when Ctrl-C ends in a traceback: mflux turns it into an exception of its own."""
    installed(raising(error))
    assert main(["adapters"]) == 130
    one_line(capsys.readouterr().err.lstrip("\n"))


def test_warnings_of_teacache_are_one_line_once(installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a warning shows the source line that gave it, comes twice, or one of another package is lost."""

    def find() -> tuple[InstalledAdapter, ...]:
        for _ in range(2):
            warnings.warn(PluginWarning("mind\nthis"), stacklevel=1)
        warnings.warn("of another package", DeprecationWarning, stacklevel=1)
        return ()

    installed(find)
    with pytest.warns(DeprecationWarning, match="another"):
        assert main(["adapters"]) == 0
    assert one_line(capsys.readouterr().err) == "teacache: mind this\n"


def test_adapters_lists_all_and_says_why_one_is_broken(installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a broken adapter hides the others, its reason is read as markup, or the exit code tells of a failure."""
    installed(lambda: (BROKEN, WORKING))
    assert main(["adapters"]) == 0
    words = capsys.readouterr().out.split()
    for word in ("teacache-fish", "2.1", "FishPipeline,", "FishEdit", "working", "broken:", "ImportError:", "[wings]"):
        assert word in words


def test_adapters_as_json(installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a field is left out, or something that is not JSON comes with it."""
    installed(lambda: (BROKEN, WORKING))
    assert main(["adapters", "--json"]) == 0
    broken, working = json.loads(capsys.readouterr().out)
    assert broken == {
        "name": "bird",
        "package": "teacache-bird",
        "version": "0.3",
        "pipelines": [],
        "contract": None,
        "status": "broken",
        "reason": "ImportError: no [wings] here",
    }
    assert working["pipelines"][0] == {"class": "FishPipeline", "makes": "fish from text"}
    assert (working["contract"], working["status"], working["reason"]) == (CONTRACT, "working", "")


def test_without_adapters_the_list_says_what_to_install(installed, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when an empty table is all that a new user sees."""
    installed(lambda: ())
    assert main(["adapters"]) == 0
    assert "pip install teacache-flux2" in capsys.readouterr().out


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_is_honoured(
    no_color: bool, installed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when NO_COLOR is ignored; without it the same terminal gets colours, so that the test sees them."""
    installed(lambda: (WORKING,))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    assert main(["adapters"]) == 0
    assert ("\x1b[32m" in capsys.readouterr().out) is not no_color


def test_libraries_are_quiet_only_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a command leaves its environment variables behind in the program that called it."""
    from teacache.cli.console import quiet_libraries

    monkeypatch.setenv("TQDM_DISABLE", "0")
    before = dict(os.environ)
    with quiet_libraries():
        assert os.environ["TQDM_DISABLE"] == "1"
    assert dict(os.environ) == before
