"""What the page of `teacache compare` says of its origin. Imported when the command runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from teacache.calibrating import identity_of, made_on
from teacache.cli.source import Source
from teacache.plugins import adapters, find_adapter
from teacache.report.compare import Case


def made_with(source: Source, name: str, cases: Sequence[Case]) -> tuple[tuple[str, str], ...]:
    """Returns label and value: model, settings, policies, versions, machine."""
    adapter, pipeline = find_adapter(source.model)
    identity, machine = identity_of(source.model), made_on()
    known = "" if identity.calibration is None else f", {identity.calibration.status} numbers known"
    picture = cases[0].plain.image
    rows = [
        ("model", name),
        ("pipeline", f"{adapter.host} {pipeline.name}"),
        ("checkpoint", f"{identity.checkpoint or 'unknown'} ({identity.level}{known})"),
        ("weights", "as loaded" if source.quantize is None else f"quantised to {source.quantize} bits"),
        ("pictures", f"{picture.width} × {picture.height} pixels, {source.steps} steps, guidance {source.guidance:g}"),
    ]
    for number, trial in enumerate(cases[0].trials):
        policies = dict.fromkeys(case.trials[number].cached.run.policy for case in cases)
        rows.append((trial.setting, "; ".join(policies)))
    packages = ["teacache-core", *(row.package for row in adapters() if row.name == adapter.name), adapter.host, "mlx"]
    rows.append(("versions", ", ".join(f"{name} {found}" for name in packages if (found := _version(name)))))
    rows += [("machine", machine["machine"]), ("date", machine["date"])]
    return tuple(rows)


def _version(package: str) -> str | None:
    """An installed package's version; None where it is none (a host of core's own, a model of the user's)."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
