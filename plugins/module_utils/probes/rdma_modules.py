"""The kernel's RDMA modules: which build of each is loaded (sysfs), and which one is installed (``modinfo``).

DOCA-OFED installs modules of its own beside the kernel's; those that are loaded stay until the host is rebooted. Both
places tell a module's ``version`` and ``srcversion``, a checksum of its source, and leave out what it has not: the
kernel's own modules often have neither (Linux, kernel/module and scripts/mod/sumversion.c; modinfo of kmod).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "rdma_modules"
# Of DOCA-OFED's modules no output was at hand.
PARTLY_UNVERIFIED = "modules of DOCA-OFED"
MODULES = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "rdma_cm")
TIMEOUT_SECONDS = 10.0

_SYS = "/sys/module"
_FIELDS = ("version", "srcversion")
# The kernel's build writes them into every module, after what is asked of it or with it.
_ALWAYS = ("filename", "name", "vermagic")
_BUILT_IN = "(builtin)"


@dataclass(frozen=True)
class Module:
    """One loaded module: the build that is loaded, and the installed one, each as its version and srcversion."""

    loaded: tuple[str, str]
    installed: tuple[str, str]


def collect(host: Host, expect: Expectations | None = None) -> Output:
    """Read two files and ask ``modinfo`` for each module that is loaded."""
    outputs: dict[str, Output] = {}
    for path in host.paths(*(f"{_SYS}/{name}" for name in MODULES)):
        name = path.rpartition("/")[2]
        outputs[f"modinfo {name}"] = host.run(("modinfo", name), TIMEOUT_SECONDS)
        outputs.update({each: host.read(each) for each in host.paths(*(f"{path}/{field}" for field in _FIELDS))})
    return blocks.listed(outputs)


def parse(output: Output) -> dict[str, Module]:
    """Return the loaded modules by name; raises Unreadable."""
    require_success(output)
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a list of outputs")
    outputs = blocks.split(output.stdout)
    asked = [name.partition(" ")[2] for name in outputs if name.startswith("modinfo ")]
    return {name: Module(_loaded(name, outputs), _installed(name, outputs[f"modinfo {name}"])) for name in asked}


def replaced(modules: Mapping[str, Module]) -> list[str]:
    """Return what waits for a reboot: modules of which another build is installed than is loaded, alike ones together.

    The checksums are told where the versions are the same.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for name, each in modules.items():
        if each.installed != each.loaded:
            parts = 2 if each.installed[0] == each.loaded[0] else 1
            alike.setdefault((shown(each.installed[:parts]), shown(each.loaded[:parts])), []).append(name)
    return [
        f"{', '.join(names)}: {installed} is installed, {loaded} is loaded"
        for (installed, loaded), names in alike.items()
    ]


def waiting(host: Host) -> list[str]:
    """Return what of this host's modules waits for a reboot; raises Unreadable."""
    return replaced(parse(collect(host)))


def shown(build: tuple[str, ...]) -> str:
    """Return a build as findings name it."""
    return " ".join(part for part in build if part) or "the kernel's own"


def _loaded(name: str, outputs: Mapping[str, Output]) -> tuple[str, str]:
    found = []
    for field in _FIELDS:
        path = f"{_SYS}/{name}/{field}"
        output = outputs.get(path, Output())
        if output.rc != 0 or (path in outputs and not output.stdout.strip()):
            raise Unreadable(f"{path}: {output.error or 'empty'}")
        found.append(output.stdout.strip())
    return found[0], found[1]


def _installed(name: str, output: Output) -> tuple[str, str]:
    if output.rc != 0:
        said = output.error or output.stderr.strip() or f"exit status {output.rc}"
        raise Unreadable(f"modinfo {name}: {said}, expected the module of the kernel that runs")
    fields = dict(re.findall(r"^(\w+): +(\S.*)$", output.stdout, re.MULTILINE | re.ASCII))
    wanted = _ALWAYS[:2] if fields.get("filename") == _BUILT_IN else _ALWAYS
    if lost := [field for field in wanted if field not in fields]:
        raise Unreadable(f"modinfo {name}: no {', '.join(lost)}, expected a whole output")
    if fields["name"] != name:
        raise Unreadable(f"modinfo {name}: tells of {fields['name']}")
    return fields.get("version", ""), fields.get("srcversion", "")
