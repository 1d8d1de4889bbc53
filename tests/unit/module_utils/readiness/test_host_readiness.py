"""All that a host lacks is in one list, which is empty for a host as its class says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.lookup.class_addresses import class_addresses
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.secure_boot import LOCKDOWN, SECURE_BOOT
from ansible_collections.muster.cluster.plugins.module_utils.readiness.host_readiness import Declared, lacking
from ansible_collections.muster.cluster.plugins.module_utils.readiness.rdma_software import RdmaSoftware
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.fake_host import FakeHost
from tests.fleets import small_fleet
from tests.typed import RAILS_FABRIC, typed

HERE = {"uname -r": Output("6.1.0-18-amd64\n"), "/opt/muster/pytorch/bin/python3": Output()}
DISTRIBUTION = RdmaSoftware("", "distribution", None, "")
SHIPPED = class_addresses()


def host_of(class_: dict[str, Any], **files: str) -> dict[str, Output]:
    """Return the functions and interfaces of a host that has a class' places."""
    found = {}
    for part in class_["gpu"]["parts"]:
        place = f"/sys/bus/pci/devices/{part['address']}"
        found |= {f"{place}/vendor": "0x10de", f"{place}/class": "0x030200"}
    for rail in class_["nic"]["rails"]:
        place, net = f"/sys/bus/pci/devices/{rail['address']}", f"/sys/class/net/eth{rail['rail']}"
        found |= {f"{place}/vendor": "0x15b3", f"{place}/class": "0x020700", f"{place}/net/eth{rail['rail']}": ""}
        found |= {f"{net}/address": "b8:3f:d2:00:00:0a", f"{net}/type": "1", f"{net}/device/uevent": "DRIVER=mlx5_core"}
    return {path: Output(f"{text}\n") for path, text in {**found, **files}.items()}


def test_all_is_told_at_once() -> None:
    dgx = expectations_of("dgx_h100", {}, "test")
    packages = [{"name": "nvidia-open-570", "version": "570.86.15-0ubuntu1"}]
    expect = typed(
        {
            **dgx,
            "fabric": RAILS_FABRIC,
            "gpu": {**dgx["gpu"], "driver": "570.86.15"},
            "gpu_stack": {"packages": packages, "services": []},
            "cpu": {**dgx["cpu"], "governor": "performance"},
            "pcie": {**dgx["pcie"], "max_read_request_bytes": 4096},
        }
    )
    host = FakeHost(
        {
            **host_of(expectations_of("xe9680_h100", {}, "test")),
            # The first rail of the class is there after all, to be taken by another network file.
            **{path: text for path, text in host_of(dgx).items() if "18:00.0/net" in path or "/eth0/" in path},
            SECURE_BOOT: Output("\6\0\0\0\1"),
            LOCKDOWN: Output("none [integrity] confidentiality\n"),
            "lspci": Output(rc=None, error="lspci: not found"),
            "ib_write_bw": Output(rc=None, error="ib_write_bw: not found"),
        }
    )
    here = FakeHost(
        {
            "uname -r": Output("5.14.0-427.el9\n"),
            "/etc/systemd/network/10-site.network": Output("[Match]\nName=eth0\n"),
        }
    )
    found = lacking(
        host, here, expect, Declared([0], ["nccl-tests"], RdmaSoftware("doca", "distribution", None, ""), SHIPPED)
    )
    begins = [
        "class dgx_h100 does not fit",
        "rdma_source: distribution, expected doca",
        "Secure Boot: ",
        "pcie: ",
        "cpu.governor: ",
        "networkd: ",
        "perftest: ",
        "pytorch.python: /opt/muster/pytorch/bin/python3 is not there",
    ]
    assert [line[: len(begin)] for line, begin in zip(found, begins, strict=True)] == begins
    assert found[0].endswith("class xe9680_h100 has these places")


def test_what_one_question_cannot_read_is_beside_what_the_others_find() -> None:
    dgx = expectations_of("dgx_h100", {}, "test")
    packages = [{"name": "nvidia-open-570", "version": "570.86.15-0ubuntu1"}]
    stack = {"gpu": {**dgx["gpu"], "driver": "570.86.15"}, "gpu_stack": {"packages": packages, "services": []}}
    host = FakeHost({**host_of(dgx), SECURE_BOOT: Output(rc=None, error=f"{SECURE_BOOT}: Permission denied")})
    found = lacking(host, FakeHost(HERE), typed({**dgx, **stack}), Declared([], [], DISTRIBUTION, SHIPPED))
    assert found[0].startswith(f"Secure Boot: {SECURE_BOOT}: ") and "Permission denied" in found[0]
    assert len(found) == 2 and found[1].startswith("cpu.governor: performance, and the host has no frequency scaling")


def test_host_as_its_class_says_lacks_nothing() -> None:
    for name in SHIPPED:
        class_ = expectations_of(name, {}, "test")
        governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
        host = FakeHost({**host_of(class_), governor: Output("performance\n")})
        expect = typed({**class_, "fabric": RAILS_FABRIC})
        assert lacking(host, FakeHost(HERE), expect, Declared(range(8), ["perftest"], DISTRIBUTION, SHIPPED)) == []


@pytest.mark.parametrize(
    ("name", "kind", "lacking_"),
    [
        ("dgx_h100", "infiniband", ["perftest: ib_write_bw"]),
        ("dgx_h200", "infiniband", ["perftest: ib_write_bw"]),
        # Backend doca is the default, and brings its perftest.
        ("xe9680_h100", "roce", ["rdma_repository: nothing", "rdma_packages: none declared"]),
    ],
)
def test_defaults_agree_and_leave_what_a_site_has_to_bring(name: str, kind: str, lacking_: list[str]) -> None:
    block = {"name": "gpu-[01-16]", "hardware_class": name, "address": "10.1.16.1"}
    own = {"socket_interface": "bond0"} if kind == "roce" else {}
    fleet = small_fleet(16, nodes=[block], fabric={"kind": kind, "speed_gbps": 400, **own})
    expect, backend = fleet.classes[name], fleet.variables()["fabric"].get("backend") or ""
    # As the default of role rdma.
    rdma = RdmaSoftware(backend, "doca" if backend == "doca" else "distribution", None, "")
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors"
    files = host_of(expectations_of(name, {}, "test")) | {governor: Output("performance powersave\n")}
    host = FakeHost({**files, "ib_write_bw": Output(rc=None, error="ib_write_bw: not found")})
    found = lacking(host, FakeHost(HERE), expect, Declared(range(8), [], rdma, SHIPPED))
    assert [line[: len(begin)] for line, begin in zip(found, lacking_, strict=True)] == lacking_
    assert fleet.weaker[name] == ()
