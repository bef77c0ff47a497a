"""Who may import whom: read from the source, and tried in fresh processes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import teacache

pytestmark = pytest.mark.unit

SOURCE = Path(teacache.__file__).parent
MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
LIGHT = ("adapter", "calibration", "discovery", "errors", "hookspecs", "identity", "plugins", "policies")
LEAVES = {  # module: what of the project it may import
    "teacache.errors": (),
    "teacache.adapter": ("teacache.described", "teacache.errors"),
    "teacache.described": ("teacache.errors",),
    "teacache.hookspecs": ("teacache.adapter",),
    "teacache.policies": ("teacache.errors", "teacache.policies"),
    "teacache.calibration": ("teacache.errors", "teacache.calibration"),
}


def below(module, package):
    """Tells whether a module is a package or lies in it."""
    return f"{module}.".startswith(f"{package}.")


class Imports(ast.NodeVisitor):
    """Collects what a module imports when it is imported, and what it imports later, inside functions."""

    def __init__(self, module, path):
        self.package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        self.now, self.later = set(), set()
        self.depth = 0
        self.visit(ast.parse(path.read_text(encoding="utf-8")))

    def visit_If(self, node):
        typing_only = "TYPE_CHECKING" in ast.dump(node.test)
        for child in node.orelse if typing_only else [*node.body, *node.orelse]:
            self.visit(child)

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_Import(self, node):
        self.add(name.name for name in node.names)

    def visit_ImportFrom(self, node):
        package = self.package.rsplit(".", node.level - 1)[0] if node.level else ""
        base = ".".join(filter(None, (package, node.module)))
        self.add(f"{base}.{name.name}" for name in node.names)

    def add(self, names):
        (self.later if self.depth else self.now).update(names)


GRAPH = {module: Imports(module, path) for module, path in MODULES.items()}


def imported(module, *packages, later=True):
    """Returns what a module imports of some packages."""
    names = GRAPH[module].now | (GRAPH[module].later if later else set())
    return sorted(name for name in names if any(below(name, package) for package in packages))


def test_the_graph_is_seen():
    """Red when the reader of imports finds nothing, so that every other test here passes."""
    assert imported("teacache.policies.gate", "teacache") != []
    assert imported("teacache.policies", "teacache.policies.gate", later=False) != []
    assert imported("teacache.wrapping", "teacache.plugins") != imported(
        "teacache.wrapping", "teacache.plugins", later=False
    )
    assert imported("teacache.adapter", "mlx") == []


@pytest.mark.parametrize("module", MODULES)
def test_core_imports_no_adapter(module):
    """Red when core knows a family: its package could not be installed without that adapter."""
    assert imported(module, "teacache_flux1", "teacache_flux2", "teacache_qwen", "teacache_zimage") == []


@pytest.mark.parametrize("module", MODULES)
def test_mflux_has_one_room(module):
    """Red when mflux is used outside its host, or a module of the testing kit needs it to be imported."""
    if module != "teacache.hosts.mflux":
        assert imported(module, "mflux", later=not below(module, "teacache.testing")) == []
    assert imported(module, "teacache.hosts.mflux", later=False) == []


@pytest.mark.parametrize("module", [module for module in MODULES if below(module, "teacache.policies")])
def test_policies_are_numbers(module):
    """Red when a policy needs a model library or the plugins."""
    assert imported(module, "mlx", "mflux", "pluggy") == []


@pytest.mark.parametrize("module", MODULES)
def test_arrows_point_down(module):
    """Red when a module at the bottom reaches up: contract, policies and calibrations stand by themselves."""
    for leaf, allowed in LEAVES.items():
        if below(module, leaf):
            above = [name for name in imported(module, "teacache") if not any(below(name, to) for to in allowed)]
            assert above == []


@pytest.mark.parametrize("module", MODULES)
def test_only_the_commands_import_the_commands(module):
    """Red when the library needs its own command line."""
    if not below(module, "teacache.cli"):
        assert imported(module, "teacache.cli") == []


@pytest.mark.parametrize("name", LIGHT)
def test_light_modules_load_no_model_library(name):
    """Red when one of them loads mlx, mflux or numpy, by itself or through another module."""
    script = (
        f"import sys, teacache.{name}; "
        "print(*sorted({'mlx', 'mflux', 'numpy', 'torch'} & {module.partition('.')[0] for module in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
