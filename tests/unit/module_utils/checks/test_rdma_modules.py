"""A driver that is installed and not loaded yet is found, before anything is measured with the one that is loaded."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import rdma_modules as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import rdma_modules as probe

from tests.fake_host import FakeHost
from tests.typed import RAILS_FABRIC, typed

# As modinfo prints modules of the distribution's kernel (Debian 12), of a kernel that has them built in, and of
# DOCA-OFED.
OWN = """filename:       /lib/modules/6.1.0-28-amd64/kernel/drivers/infiniband/core/ib_core.ko
license:        Dual BSD/GPL
depends:
intree:         Y
name:           ib_core
vermagic:       6.1.0-28-amd64 SMP preempt mod_unload modversions
"""
BUILT_IN = """name:           ib_core
filename:       (builtin)
license:        Dual BSD/GPL
file:           drivers/infiniband/core/ib_core
"""
DOCA = """filename:       /lib/modules/6.1.0-28-amd64/updates/dkms/ib_core.ko
license:        Dual BSD/GPL
version:        25.07-0.9.7
srcversion:     8F2D1C6A0B7E45D3F19A2C4
depends:        mlx_compat
name:           ib_core
vermagic:       6.1.0-28-amd64 SMP preempt mod_unload modversions
"""
LOADED = {"version": "25.07-0.9.7\n", "srcversion": "8F2D1C6A0B7E45D3F19A2C4\n"}


def host(installed: str | Output, loaded: dict[str, str] | None) -> FakeHost:
    """Return a host with one module, of which ``loaded`` are the files; None where it is not loaded."""
    output = installed if isinstance(installed, Output) else Output(installed)
    base = "/sys/module/ib_core"
    files = {f"{base}/{name}": Output(text) for name, text in (loaded or {}).items()}
    there = {} if loaded is None else {base: Output(), **files}
    return FakeHost({"modinfo ib_core": output, **there})


@pytest.mark.parametrize(
    ("installed", "loaded", "verdict", "said"),
    [
        (OWN, {}, "pass", ""),
        (BUILT_IN, {}, "pass", ""),
        (DOCA, LOADED, "pass", ""),
        # DOCA-OFED was just installed.
        (DOCA, {}, "fail", "ib_core: 25.07-0.9.7 is installed, the kernel's own is loaded"),
        # It was updated, or rebuilt from other source.
        (DOCA, {**LOADED, "version": "24.10-2.1.8\n"}, "fail", "25.07-0.9.7 is installed, 24.10-2.1.8 is loaded"),
        (
            DOCA,
            {**LOADED, "srcversion": "0" * 23 + "\n"},
            "fail",
            "25.07-0.9.7 8F2D1C6A0B7E45D3F19A2C4 is installed, 25.07-0.9.7 0000",
        ),
        # It was taken away.
        (OWN, LOADED, "fail", "the kernel's own is installed, 25.07-0.9.7 is loaded"),
        # No driver at all.
        (OWN, None, "incomplete", "no RDMA module is loaded"),
    ],
)
def test_loaded_module_is_the_installed_one(
    expect: dict[str, Any], installed: str, loaded: dict[str, str] | None, verdict: str, said: str
) -> None:
    declared = typed({**expect, "fabric": RAILS_FABRIC})
    values = {"rdma_modules": probe.parse(probe.collect(host(installed, loaded), declared))}
    (finding,) = check.decide(values, declared)
    assert (finding.verdict, finding.subject) == (verdict, *check.subjects(declared))
    assert said in finding.reason
    assert finding.action == {"pass": "none", "fail": "reboot", "incomplete": "investigate"}[verdict]


def test_modules_that_wait_for_the_same_are_told_in_one() -> None:
    new, old = ("25.07-0.9.7", "A"), ("", "")
    modules = {name: probe.Module(old, new) for name in ("ib_core", "mlx5_core")}
    assert probe.replaced({**modules, "rdma_cm": probe.Module(new, new)}) == [
        "ib_core, mlx5_core: 25.07-0.9.7 is installed, the kernel's own is loaded"
    ]


def test_owed_on_an_rdma_fabric_alone(expect: dict[str, Any]) -> None:
    assert check.subjects(typed({**expect, "fabric": RAILS_FABRIC})) == ["rdma_modules"]
    assert check.subjects(typed({**expect, "fabric": None})) == []
    assert check.decide({}, typed({**expect, "fabric": None})) == []


@pytest.mark.parametrize(
    ("installed", "loaded", "said"),
    [
        (Output("", "modinfo: ERROR: Module ib_core not found.\n", 1), {}, "Module ib_core not found"),
        (Output("", rc=None, error="modinfo: not found in /bin"), LOADED, "not found in /bin"),
        (Output(DOCA, rc=-9), LOADED, "exit status -9"),
        (Output(""), {}, "no filename, name, vermagic"),
        (Output(DOCA[:120]), {}, "no name, vermagic"),
        (Output(OWN.replace("ib_core\n", "ib_cm\n")), {}, "tells of ib_cm"),
        (DOCA, {**LOADED, "version": ""}, "version: empty"),
    ],
)
def test_what_cannot_be_read_is_no_answer(installed: str | Output, loaded: dict[str, str], said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        probe.parse(probe.collect(host(installed, loaded)))


@pytest.mark.parametrize("text", ["", "modinfo: command not found\n"])
def test_lost_output_is_no_answer(text: str) -> None:
    with pytest.raises(Unreadable, match="expected a list of outputs"):
        probe.parse(Output(text))
