"""Discovery with real tiny distributions, and the choice of the adapter for a model."""

import os
import subprocess
import sys
import textwrap

import pytest

from teacache import plugins
from teacache.adapter import CONTRACT, Adapter, Body, Pipeline, Signal
from teacache.errors import (
    AdapterNotInstalledError,
    AmbiguousAdapterError,
    ContractVersionError,
    OptionError,
    PluginError,
    UnknownModelError,
    UnsupportedPipelineError,
)

pytestmark = pytest.mark.unit

PLUGIN = """
from teacache import Adapter, Body, Pipeline, Signal, hookimpl

ADAPTER = Adapter(
    name={name!r},
    contract={contract},
    pipelines=(Pipeline(cls={pipeline!r}),),
    refused={{"host_program:Refused": "it has no steps"}},
    transformer="host_program:Transformer",
    body=Body(blocks=("blocks",)),
    signal=Signal(read=lambda call: call["x"], tensor="x"),
)

@hookimpl
def teacache_adapters():
    return [ADAPTER]
"""


def model(name="Pipe", module="host_program.pipes"):
    """Returns the class of a model."""
    return type(name, (), {"__module__": module})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns a function that installs a distribution; no other one with adapters is seen."""
    folders = [folder for folder in sys.path if "/packages/teacache-" not in folder and "site-packages" not in folder]
    monkeypatch.setattr(sys, "path", folders)
    monkeypatch.delenv("TEACACHE_DISABLE", raising=False)

    def add(package, source=None, *, name="fam", pipeline="host_program:Pipe", contract=1, entries=None, version="1.2"):
        module = package.replace("-", "_").lower()
        site = tmp_path / f"{module}-{version}"
        info = site / f"{module}-{version}.dist-info"
        info.mkdir(parents=True)
        source = PLUGIN.format(name=name, pipeline=pipeline, contract=contract) if source is None else source
        (site / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n\nName: no\n")
        entries = f"{name} = {module}\n" if entries is None else entries
        (info / "entry_points.txt").write_text(f"[console_scripts]\nx = y:z\n\n[teacache]\n{entries}")
        sys.path.append(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)  # the real one, where a test before imported it
        plugins.clear_cache()
        return info

    plugins.clear_cache()
    yield add
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    monkeypatch.undo()
    plugins.clear_cache()


def only():
    """Returns the one adapter that is installed."""
    (row,) = plugins.adapters()
    return row


def test_working_adapter_is_found(install):
    """Red when an installed plugin is not seen, or its package and version are wrong."""
    install("fam-plugin")
    row = only()
    assert (row.name, row.package, row.version, row.status, row.reason) == ("fam", "fam-plugin", "1.2", "working", "")
    assert plugins.find_adapter(model()) == (row.adapter, row.adapter.pipelines[0])
    assert plugins.find_adapter(model()())[0] is row.adapter
    assert plugins.find_adapter(type("Mine", (model(),), {}))[0] is row.adapter
    assert plugins.get_adapter("fam") is row.adapter
    assert plugins.adapters() is plugins.adapters()


BROKEN = {
    "import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "syntax": ("def broken(:", "SyntaxError: "),
    "raises": ("raise RuntimeError('first line\\nsecond')", "RuntimeError: first line"),
    "exit": ("raise SystemExit('leave')", "SystemExit: leave"),
    "argument": (
        "from teacache import hookimpl\n@hookimpl\ndef teacache_adapters(model): return []",
        "PluginValidationError: ",
    ),
    "hook name": (
        "from teacache import hookimpl\n@hookimpl\ndef teacache_adaptors(): return []",
        "PluginValidationError: unknown hook 'teacache_adaptors'",
    ),
    "no hook": ("def teacache_adapters(): return []", "PluginError: broken_plugin implements no hook"),
    "hook raises": (
        "from teacache import hookimpl\n@hookimpl\ndef teacache_adapters(): yield 1 / 0",
        "ZeroDivisionError: ",
    ),
    "no adapter": (
        "from teacache import hookimpl\n@hookimpl\ndef teacache_adapters(): return ['flux2']",
        "PluginError: The hook teacache_adapters of broken_plugin returned ['flux2']; expected a list",
    ),
    "no list": (
        PLUGIN.format(name="fam", pipeline="a:B", contract=1).replace("[ADAPTER]", "ADAPTER"),
        "PluginError: The hook teacache_adapters of broken_plugin returned Adapter(",
    ),
    "nothing": (
        "from teacache import hookimpl\n@hookimpl\ndef teacache_adapters(): pass",
        "PluginError: The hook teacache_adapters of broken_plugin returned None",
    ),
    "adapter": (
        "from teacache import Adapter\nAdapter(name='x', engine='y')",
        "TypeError: ",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_plugin_breaks_nothing_else(install, case):
    """Red when one plugin's failure stops discovery, is swallowed, or is raised before its family is asked for."""
    source, reason = BROKEN[case]
    install("broken-plugin", source, name="sick")
    install("fam-plugin")
    rows = {row.name: row for row in plugins.adapters()}
    assert rows["fam"].status == "working"
    assert plugins.find_adapter(model())[0] is rows["fam"].adapter
    sick = rows["sick"]
    assert (sick.status, sick.package, sick.version, sick.adapter) == ("broken", "broken-plugin", "1.2", None)
    assert sick.reason.startswith(reason)
    assert "\n" not in sick.reason
    with pytest.raises(
        PluginError, match=r"'sick' of broken-plugin 1\.2 is broken .*--force-reinstall broken-"
    ) as info:
        plugins.get_adapter("sick")
    assert info.value.__cause__ is sick.error


def test_entry_point_without_its_object(install):
    """Red when an entry point that names nothing ends in an untyped error."""
    install("broken-plugin", "", entries="sick = broken_plugin:plugin\n")
    assert only().reason.startswith("AttributeError: ")


def test_damaged_list_of_entry_points(install):
    """Red when a line that cannot be read stops the discovery of all packages."""
    install("broken-plugin", "", entries="no equals sign\n")
    install("fam-plugin")
    assert [(row.name, row.status) for row in plugins.adapters()] == [("broken-plugin", "broken"), ("fam", "working")]


def test_broken_plugin_of_a_known_family(install):
    """Red when the user of a known family is told to install what is installed and broken."""
    install("Teacache_Flux2", "import no_such_module", name="anything")
    with pytest.raises(PluginError, match=r"is broken .*No module named 'no_such_module'") as info:
        plugins.find_adapter(model("Flux2Klein", "mflux.models.flux2.variants"))
    assert isinstance(info.value.__cause__, ModuleNotFoundError)


def test_known_family_that_is_not_installed(install):
    """Red when the message lacks the line to run, or a prefix of a module's name is taken for the module."""
    with pytest.raises(
        AdapterNotInstalledError,
        match=r"Flux2Klein .* Run: pip install teacache-flux2, or in a clone: uv .* packages/teacache-flux2$",
    ):
        plugins.find_adapter(model("Flux2Klein", "mflux.models.flux2.variants.txt2img"))
    with pytest.raises(AdapterNotInstalledError, match=r"pip install -e packages/teacache-flux1$"):
        plugins.find_adapter(type("Mine", (model("Flux1", "mflux.models.flux"),), {}))
    with pytest.raises(AdapterNotInstalledError, match=r"pip install -e packages/teacache-qwen$"):
        plugins.get_adapter("qwen")
    with pytest.raises(UnknownModelError):
        plugins.find_adapter(model("Qwen21", "mflux.models.qwen21.variants"))


def test_unknown_model(install):
    """Red when the message does not say what is served, or hides a plugin that was set aside."""
    install("fam-plugin")
    install("broken-plugin", "import no_such_module", name="sick")
    with pytest.raises(UnknownModelError) as info:
        plugins.find_adapter(model("Other"))
    assert "No adapter describes host_program.pipes.Other" in str(info.value)
    assert "fam: Pipe" in str(info.value)
    assert "'sick' of broken-plugin 1.2 was set aside (ModuleNotFoundError" in str(info.value)


def test_unknown_name(install):
    """Red when a mistyped name is taken for something to install from the family's package."""
    install("fam-plugin")
    with pytest.raises(AdapterNotInstalledError, match=r"no adapter 'fan'; installed are fam"):
        plugins.get_adapter("fan")
    with pytest.raises(AdapterNotInstalledError, match=r"no adapter 'other-plugin:fam'; installed are"):
        plugins.get_adapter("other-plugin:fam")


@pytest.mark.parametrize("adapter", [None, "fam"])
def test_refused_class(install, adapter):
    """Red when a class that cannot be cached is unknown, or wrapped."""
    install("fam-plugin")
    with pytest.raises(
        UnsupportedPipelineError, match=r"Refused cannot be cached .*it has no steps.* Supported are Pipe"
    ):
        plugins.find_adapter(model("Refused"), adapter=adapter)


def test_class_of_a_known_family_that_no_adapter_lists(install):
    """Red when a new pipeline of an installed family is called an unknown model."""
    install("teacache-flux2", name="flux2", pipeline="mflux.models.flux2:Flux2Klein")
    with pytest.raises(
        UnsupportedPipelineError, match=r"Flux2New .*not among the pipelines.* Supported are Flux2Klein"
    ):
        plugins.find_adapter(model("Flux2New", "mflux.models.flux2.variants"))


@pytest.mark.parametrize("second", ["fam", "other"])
def test_two_packages_claim_one_model(install, second):
    """Red when the package that comes first wins silently."""
    install("b-plugin", name=second)
    install("a-plugin")
    with pytest.raises(AmbiguousAdapterError, match=f"a-plugin:fam and b-plugin:{second} both claim Pipe.*adapter='a-"):
        plugins.find_adapter(model())
    for package, name in (("a-plugin", "fam"), ("B_Plugin", second)):
        found, _ = plugins.find_adapter(model(), adapter=f"{package}:{name}")
        assert type(found.signal.read).__name__ == "function"
        assert found.signal.read.__module__ == package.lower().replace("-", "_")


def test_two_packages_claim_one_name(install):
    """Red when a name means whatever comes first, or a model that only one claims hides the clash."""
    install("a-plugin")
    install("b-plugin", pipeline="host_program:Other")
    for ask in (lambda: plugins.get_adapter("fam"), lambda: plugins.find_adapter(model())):
        with pytest.raises(AmbiguousAdapterError, match="a-plugin:fam and b-plugin:fam both claim the name 'fam'"):
            ask()
    assert plugins.find_adapter(model("Other"), adapter="b-plugin:fam")[1].name == "Other"


def test_same_adapter_twice(install):
    """Red when two entry points of one module, or an editable and a plain installation, count as two adapters."""
    install("a-plugin", entries="fam = a_plugin\nfamily = a_plugin\n")
    install("A.Plugin", version="1.1")
    install("again", "from a_plugin import teacache_adapters")
    assert only().package == "a-plugin"
    assert plugins.find_adapter(model())[0] is only().adapter


def test_several_adapters_of_one_package(install):
    """Red when only the first adapter of a plugin is taken."""
    source = PLUGIN.format(name="fam", pipeline="host_program:Pipe", contract=1)
    source = "import dataclasses\n" + source.replace(
        "[ADAPTER]", "[dataclasses.replace(ADAPTER, name='two', pipelines=()), ADAPTER]"
    )
    install("a-plugin", source)
    assert [row.name for row in plugins.adapters()] == ["fam", "two"]


def test_disabled_plugin_is_not_imported(install, monkeypatch):
    """Red when TEACACHE_DISABLE hides the result but still runs the plugin, or hides that it did so."""
    monkeypatch.setenv("TEACACHE_DISABLE", "other, flux2")
    install("teacache-flux2", "raise SystemExit('imported')", name="flux2")
    install("fam-plugin")
    row = plugins.adapters()[1]
    assert (row.name, row.status, row.reason) == ("flux2", "disabled", "TEACACHE_DISABLE names it")
    for ask in (lambda: plugins.get_adapter("flux2"), lambda: plugins.find_adapter(model("X", "mflux.models.flux2"))):
        with pytest.raises(
            AdapterNotInstalledError, match=r"'flux2' of teacache-flux2 1\.2 is disabled: TEACACHE_DISABLE"
        ):
            ask()
    assert plugins.find_adapter(model())[0].name == "fam"


def test_other_contract_disables_that_adapter_only(install):
    """Red when an adapter for another contract is used, or takes others with it."""
    install("old-plugin", name="old", pipeline="host_program:Old", contract=CONTRACT + 1)
    install("fam-plugin")
    row = plugins.adapters()[1]
    assert (row.name, row.status) == ("old", "incompatible")
    assert plugins.find_adapter(model())[0].name == "fam"
    for ask in (
        lambda: plugins.find_adapter(model("Old")),
        lambda: plugins.get_adapter("old"),
        lambda: plugins.find_adapter(model("Old"), adapter=row.adapter),
    ):
        with pytest.raises(
            ContractVersionError, match=rf"contract {CONTRACT + 1}.* has contract {CONTRACT}\. .*pip install"
        ):
            ask()


def test_leftover_metadata_hides_nothing(install, tmp_path):
    """Red when an empty folder that an uninstallation left behind breaks discovery, or hides the real package."""
    for name in ("fam_plugin-1.0.dist-info", "~am_plugin-1.2.dist-info", "fam_plugin.egg-info"):
        (tmp_path / "left" / name).mkdir(parents=True)
    (tmp_path / "left" / "half-1.0.dist-info").mkdir()
    (tmp_path / "left" / "half-1.0.dist-info" / "entry_points.txt").write_text("[teacache]\nhalf = half\n")
    sys.path.insert(0, str(tmp_path / "left"))
    install("fam-plugin")
    assert (only().name, only().status, only().version) == ("fam", "working", "1.2")


def test_adapter_given_as_an_object(install):
    """Red when a model without a plugin cannot be described inline, or the object's class is not checked."""
    mine = Adapter(
        name="mine",
        contract=CONTRACT,
        pipelines=(Pipeline(cls="host_program:Pipe"),),
        transformer="host_program:Transformer",
        body=Body(blocks=("blocks",)),
        signal=Signal(read=lambda call: call["x"], tensor="x"),
    )
    install("fam-plugin")
    assert plugins.find_adapter(model(), adapter=mine)[0] is mine
    with pytest.raises(UnsupportedPipelineError, match="Other cannot be cached by the adapter 'mine'"):
        plugins.find_adapter(model("Other"), adapter=mine)
    with pytest.raises(OptionError, match="adapter=3: expected an adapter's name, an Adapter object or None"):
        plugins.find_adapter(model(), adapter=3)


def test_discovery_imports_neither_mlx_nor_mflux(install):
    """Red when listing the installed adapters, the real ones included, loads a model library or numpy."""
    site = install("fam-plugin").parent
    script = (
        "import sys, teacache; rows = teacache.adapters(); "
        "assert 'fam' in [row.name for row in rows if row.status == 'working'], rows; "
        "print(*sorted({'mlx', 'mflux', 'numpy', 'torch'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
