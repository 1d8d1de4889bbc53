"""Parsers of CPU, memory, NUMA, kernel settings and PCI: good texts, other versions, and what must not be a value."""

import gzip
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import (
    chrony,
    clocksource,
    cmdline,
    cpufreq,
    cpuinfo,
    dmidecode_memory,
    edac,
    hugepages,
    lscpu,
    lspci,
    meminfo,
    numa,
)

from tests.fake_host import FakeHost

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
ALL = (
    *(chrony, clocksource, cmdline, cpufreq, cpuinfo, dmidecode_memory, edac, hugepages),
    *(lscpu, lspci, meminfo, numa),
)


def healthy(probe):
    (path,) = HEALTHY.glob(f"{probe.NAME}.*")
    return path.read_text()


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.NAME)
def test_a_text_without_one_line_is_understood_or_unreadable(probe):
    lines = healthy(probe).splitlines(keepends=True)
    # Long texts repeat themselves.
    for index in range(min(len(lines), 150)):
        try:
            probe.parse(Output("".join(lines[:index] + lines[index + 1 :])))
        except Unreadable:
            continue


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.NAME)
def test_a_text_cut_short_is_understood_or_unreadable(probe):
    text = healthy(probe)
    for end in range(0, len(text), max(1, len(text) // 150)):
        try:
            probe.parse(Output(text[:end]))
        except Unreadable:
            continue


def test_healthy_texts():
    assert len(cpufreq.parse(Output(healthy(cpufreq)))) == len(cpuinfo.parse(Output(healthy(cpuinfo)))) == 192
    assert {cpu.microcode for cpu in cpuinfo.parse(Output(healthy(cpuinfo)))} == {"0x2b000603"}
    assert {node.cpus for node in numa.parse(Output(healthy(numa))).values()} == {96}
    modules = dmidecode_memory.parse(Output(healthy(dmidecode_memory)))
    assert len(modules.slots) == 32 and modules.complete
    assert modules.slots[0] == dmidecode_memory.Module("A1", 65536, 4400, "LAB64G-4800", "51000000")
    assert len(edac.parse(Output(healthy(edac))).dimms) == 32
    assert hugepages.parse(Output(healthy(hugepages))) == hugepages.HugePages({2048: 0, 1048576: 0}, "madvise")
    assert "iommu=pt" in cmdline.parse(Output(healthy(cmdline)))
    assert lscpu.parse(Output(healthy(lscpu))).threads_per_core == 2


@pytest.mark.parametrize("path", [cpuinfo.PATH, cmdline.PATH])
def test_this_machines_own_files_are_understood(path):
    probe = cpuinfo if path == cpuinfo.PATH else cmdline
    assert probe.parse(Output(Path(path).read_text()))


def test_recorded_lscpu_table(recorded):
    found = lscpu.parse(Output(recorded("numa/lscpu-3.txt")))
    assert found == lscpu.Cpu(2, 2, "Intel Core Processor (Haswell, no TSX, IBRS)", 1, "", "x86_64")


def test_lscpu_tells_cpus_that_are_off():
    text = healthy(lscpu).replace('"field": "Vendor ID:"', '"field": "Off-line CPU(s) list:"')
    assert lscpu.parse(Output(text)).offline == "GenuineIntel"


def test_recorded_chrony_report(recorded):
    found = chrony.parse(Output(recorded("chrony/chronyc-tracking-stratum3.txt")))
    assert found.synchronised and found.source == "pyramid.latt.net" and found.offset_ms == pytest.approx(0.031625)


@pytest.mark.parametrize(
    ("before", "after"),
    [("Leap status     : Normal", ""), ("seconds slow", "slow"), ("System time", "Sysm time"), (": Normal", ": Nor")],
)
def test_chrony_report_that_lacks_something_is_unreadable(recorded, before, after):
    with pytest.raises(Unreadable):
        chrony.parse(Output(recorded("chrony/chronyc-tracking-stratum3.txt").replace(before, after)))


def test_chrony_report_of_an_unsteered_clock(recorded):
    text = recorded("chrony/chronyc-tracking-stratum3.txt").replace("C7E9ECE2 (pyramid.latt.net)", "127.127.1.1 ()")
    assert not chrony.parse(Output(text)).synchronised


def test_recorded_numactl(recorded):
    text = recorded("numa/numactl-H-spr-snc4-8nodes.txt")
    found = numa.parse(Output(text))
    assert len(found) == 8 and found[0] == numa.Node(14, 63565)
    for line in ("node 3 cpus", "node 7 size"):
        broken = "\n".join(item for item in text.splitlines() if not item.startswith(line))
        with pytest.raises(Unreadable):
            numa.parse(Output(broken))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quiet iommu=pt\n", ("quiet", "iommu=pt")),
        ('dyndbg="file x +p" ro\n', ("dyndbg=file x +p", "ro")),
    ],
)
def test_cmdline_words(text, expected):
    assert cmdline.parse(Output(text)) == expected


@pytest.mark.parametrize("text", ["", "\n", "iommu=pt", 'a="b\n', "a\0b\n"])
def test_no_cmdline(text):
    with pytest.raises(Unreadable):
        cmdline.parse(Output(text))


OLD_DMI = """# dmidecode 2.12
Handle 0x1100, DMI type 17, 34 bytes
Memory Device
\tArray Handle: 0x1000
\tSize: 32768 MB
\tLocator: DIMM_A1
\tConfigured Clock Speed: 2933 MHz

"""


def test_old_dmidecode_without_arrays_is_not_complete():
    found = dmidecode_memory.parse(Output(OLD_DMI))
    assert found == dmidecode_memory.Modules((dmidecode_memory.Module("DIMM_A1", 32768, 2933, None),), complete=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Number Of Devices: 32", "Number Of Devices: 33"),
        ("Number Of Devices: 32", "Number Of Devices: N/A"),
        ("\tUse: System Memory\n", ""),
        ("\tLocator: A1\n", ""),
        ("Handle 0x1105, DMI type 17, 92 bytes\n", ""),
    ],
)
def test_dmidecode_that_lacks_something_is_unreadable(before, after):
    text = healthy(dmidecode_memory)
    assert before in text
    with pytest.raises(Unreadable):
        dmidecode_memory.parse(Output(text.replace(before, after, 1)))


@pytest.mark.parametrize("size", ["Unknown", "64", "ERR!", ""])
def test_dmidecode_size_that_is_none(size):
    text = healthy(dmidecode_memory).replace("Size: 64 GB", f"Size: {size}", 1)
    assert dmidecode_memory.parse(Output(text)).slots[0].mib is None


def test_dmidecode_without_root_is_unreadable():
    with pytest.raises(Unreadable, match="Permission denied"):
        dmidecode_memory.parse(Output("# dmidecode 3.3\n", "/dev/mem: Permission denied\n", 1))


def test_edac_of_old_kernels_and_ranks():
    text = (
        "==> /sys/devices/system/edac/mc/mc0/ce_count <==\n3\n\n"
        "==> /sys/devices/system/edac/mc/mc0/ue_count <== (Permission denied)\n\n"
        "==> /sys/devices/system/edac/mc/mc0/rank1/dimm_label <==\nmc#0csrow#0channel#1\n"
    )
    found = edac.parse(Output(text))
    assert found.controllers == (edac.Counts("mc0", 3, None),)
    assert found.dimms == (edac.Counts("mc#0csrow#0channel#1", None, None),)


def test_recorded_whole_machine_is_read_in_a_moment(recorded):
    recorded("lspci/lspci-vvv-cx7-only.txt")
    path = Path(__file__).resolve().parents[5] / "shared/recorded/lspci/lspci-vvv-dell-xe9680-hgx-h100.txt.gz"
    devices = lspci.parse(Output(gzip.decompress(path.read_bytes()).decode()))
    assert len(devices) == 517
    gpu = devices["0000:19:00.0"]
    assert (gpu.kind, gpu.link, gpu.port) == ("3D controller", lspci.Link(32.0, 16), "Endpoint")
    path = [bridge.address for bridge in lspci.above("0000:19:00.0", devices)]
    assert path == ["0000:17:01.0", "0000:16:00.0", "0000:15:01.0"]
    assert devices["0000:17:03.0"].link == lspci.Link(16.0, 16)


NEW_LSPCI = """10000:e1:00.0 Non-Volatile memory controller [0108]: Vendor Drive [1234:5678] (rev 01)
\tCapabilities: [80] Express (v2) Endpoint, IntMsgNum 0
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM not supported
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x4

"""


def test_bytes_that_lspci_shows_besides_belong_to_their_device():
    gone = "\t!!! Unknown header type 7f\n00: " + "ff " * 15 + "ff\n10: " + "ff " * 15 + "ff\n\n"
    text = f"01:00.0 3D controller: NVIDIA Corporation H100 (rev ff)\n{gone}02:00.0 3D controller: NVIDIA H100\n"
    devices = lspci.parse(Output(text))
    assert [(device.address, device.silent) for device in devices.values()] == [
        ("0000:01:00.0", True),
        ("0000:02:00.0", False),
    ]


def test_lspci_of_other_versions():
    (device,) = lspci.parse(Output(NEW_LSPCI)).values()
    assert (device.address, device.kind) == ("10000:e1:00.0", "Non-Volatile memory controller")
    assert (device.capable, device.link, device.readable) == (lspci.Link(16.0, 4), lspci.Link(8.0, 4), True)
    unknown = NEW_LSPCI.replace("Speed 8GT/s (downgraded)", "Speed unknown")
    assert lspci.parse(Output(unknown))["10000:e1:00.0"].link is None
    denied = "0000:e1:00.0 PCI bridge: X\n\tCapabilities: <access denied>\n\n"
    assert not lspci.parse(Output(denied))["0000:e1:00.0"].readable


@pytest.mark.parametrize("text", ["", "lspci: cannot open\n", NEW_LSPCI + "garbage\n"])
def test_lspci_that_is_none(text):
    with pytest.raises(Unreadable):
        lspci.parse(Output(text))


def test_a_bridge_that_is_not_listed_leaves_no_way_to_the_root():
    text = healthy(lspci)
    assert lspci.above("0000:0b:00.0", lspci.parse(Output(text)))
    without = "".join(f"{block}\n\n" for block in text.split("\n\n") if "secondary=0b," not in block and block.strip())
    assert not lspci.above("0000:0b:00.0", lspci.parse(Output(without)))


ARM = """processor\t: 0
BogoMIPS\t: 2000.00
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 1

"""
SOCKET = "/sys/devices/system/cpu/cpu0/topology/physical_package_id"


def test_cpu_of_arm64_has_numbers_for_a_name_and_its_socket_from_sysfs():
    host = FakeHost({cpuinfo.PATH: Output(ARM), SOCKET: Output("1\n")})
    (cpu,) = cpuinfo.parse(cpuinfo.collect(host, None))
    assert (cpu.number, cpu.socket, cpu.model, cpu.microcode) == (0, "1", "Arm 0x41 0xd4f r0p1", None)


@pytest.mark.parametrize("line", ["CPU implementer", "CPU part", "CPU variant", "CPU revision"])
def test_cpu_of_arm64_without_one_of_its_numbers_has_no_model(line):
    text = "".join(each for each in ARM.splitlines(keepends=True) if not each.startswith(line))
    (cpu,) = cpuinfo.parse(Output(text))
    assert cpu.model is None


@pytest.mark.parametrize("socket", [Output("-1\n"), Output("", rc=None, error="gone")])
def test_cpu_of_arm64_whose_socket_cannot_be_read_is_unreadable(socket):
    host = FakeHost({cpuinfo.PATH: Output(ARM), SOCKET: socket})
    with pytest.raises(Unreadable):
        cpuinfo.parse(cpuinfo.collect(host, None))


def test_cpu_of_arm64_without_any_socket_is_unreadable():
    with pytest.raises(Unreadable, match="physical_package_id"):
        cpuinfo.parse(cpuinfo.collect(FakeHost({cpuinfo.PATH: Output(ARM)}), None))


def test_file_of_x86_alone_is_kept_as_it_is():
    host = FakeHost({cpuinfo.PATH: Output(healthy(cpuinfo)), SOCKET: Output("0\n")})
    assert cpuinfo.collect(host, None).stdout == healthy(cpuinfo)


def test_architecture_is_what_the_kernel_calls_it():
    assert lscpu.parse(Output(healthy(lscpu))).architecture == "x86_64"
