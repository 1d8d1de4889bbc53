"""Without a class, probes ask for everything that sysfs shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ansible_collections.muster.cluster.plugins.module_utils.collecting.wide_expectations import (
    filled,
    wide_expectations,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Collectives, Count

from tests.fake_host import FakeHost

PCI = "/sys/bus/pci/devices"


@dataclass(frozen=True)
class Part:
    """A part of a section."""

    name: str
    size: int


@dataclass(frozen=True)
class Section:
    """A section with a field of every kind."""

    text: str
    flag: bool
    number: float
    count: Count
    kind: Annotated[Literal["b", "a"], "which"]
    parts: tuple[Part, ...]
    limits: dict[str, int | None]
    part: Part
    absent: Part | None


def host(*functions: tuple[str, str, str], files: tuple[str, ...] = ()) -> FakeHost:
    read = {f"{PCI}/{address}/vendor": Output(f"{vendor}\n") for address, vendor, _ in functions}
    read.update({f"{PCI}/{address}/class": Output(f"{kind}\n") for address, _, kind in functions})
    return FakeHost({**read, **dict.fromkeys(files, Output())})


def test_all_gpus_nics_and_drives_are_asked_for_in_the_order_of_their_addresses() -> None:
    found = host(
        ("0000:ab:00.0", "0x10de", "0x030200"),
        ("0000:1b:00.0", "0x10de", "0x030200"),
        # An NVSwitch, a NIC whose driver is missing, one of another vendor with an RDMA device, one without.
        ("0000:07:00.0", "0x10de", "0x068000"),
        ("0000:3c:00.0", "0x15b3", "0x020700"),
        ("0000:1a:00.0", "0x14e4", "0x020000"),
        ("0000:29:00.0", "0x8086", "0x020000"),
        files=(f"{PCI}/0000:1a:00.0/infiniband/bnxt_re0", "/sys/class/nvme/nvme0", "/sys/class/nvme/nvme1"),
    )
    expect = wide_expectations(found, "/usr/bin", "/")
    assert expect.gpu is not None and expect.nic is not None and expect.nvme is not None
    assert [(part.slot, part.address) for part in expect.gpu.parts] == [
        ("GPU0", "0000:1b:00.0"),
        ("GPU1", "0000:ab:00.0"),
    ]
    assert [(rail.rail, rail.address) for rail in expect.nic.rails] == [(0, "0000:1a:00.0"), (1, "0000:3c:00.0")]
    assert (expect.gpu.count, expect.nvme.count) == (2, 2)
    assert expect.nic.physical is not None and expect.nic.physical.fec_histogram
    assert expect.nic.firmware_settings is not None and expect.dcgm is not None and expect.bmc is not None


def test_virtual_functions_are_no_rails_unless_they_are_all_there_is() -> None:
    nics = [(f"0000:1a:00.{number}", "0x15b3", "0x020000") for number in range(3)]
    beside = wide_expectations(host(*nics, files=(f"{PCI}/0000:1a:00.1/physfn",)), "/usr/bin", "/").nic
    assert beside is not None
    assert [rail.address for rail in beside.rails] == ["0000:1a:00.0", "0000:1a:00.2"]


def test_nic_that_manages_nvswitches_is_no_rail() -> None:
    found = host(*((f"0000:0{number}:00.0", "0x15b3", "0x020700") for number in range(3)))
    found.outputs[f"{PCI}/0000:01:00.0/vpd"] = Output("V3 SMDL=SW_MNG")
    found.outputs[f"{PCI}/0000:02:00.0/vpd"] = Output("SN MT1")
    nic = wide_expectations(found, "/usr/bin", "/").nic
    assert nic is not None
    assert [rail.address for rail in nic.rails] == ["0000:00:00.0", "0000:02:00.0"]


def test_imex_is_asked_for() -> None:
    nvlink = wide_expectations(host(), "/usr/bin", "/").nvlink
    assert nvlink is not None and nvlink.domain is not None and nvlink.domain.imex is not None


def test_host_without_devices_has_nothing_to_ask_for() -> None:
    expect = wide_expectations(host(), "/opt/bin", "/host")
    assert expect.gpu is None and expect.nic is not None and expect.nic.rails == ()
    assert (expect.tools.path, expect.tools.root) == ("/opt/bin", "/host")


def test_what_is_not_given_is_null_or_as_empty_as_its_type_allows() -> None:
    empty = Section("-", False, 0.0, 0, "b", (), {}, Part("-", 0), None)
    assert filled(Section) == empty
    assert filled(Section, text="x", absent=Part("y", 1)).absent == Part("y", 1)
    assert filled(Collectives).latency == ()
