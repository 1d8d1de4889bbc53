"""What the static checks of the host say of parsed values: the rule, its boundary on both sides, what is not there."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import (
    acs,
    clocksource,
    cpu,
    cpu_governor,
    dimms,
    hugepages,
    kernel_command_line,
    memory_errors,
    microcode,
    numa,
    pcie_links,
    swap,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import lspci
from ansible_collections.muster.cluster.plugins.module_utils.probes.cpuinfo import LogicalCpu
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode_memory import Module, Modules
from ansible_collections.muster.cluster.plugins.module_utils.probes.edac import Counts, Edac
from ansible_collections.muster.cluster.plugins.module_utils.probes.hugepages import HugePages
from ansible_collections.muster.cluster.plugins.module_utils.probes.lscpu import Cpu
from ansible_collections.muster.cluster.plugins.module_utils.probes.meminfo import Memory
from ansible_collections.muster.cluster.plugins.module_utils.probes.numa import Node
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"


@pytest.fixture
def expect():
    return expectations_of("hgx_h100", PLACED, "test")


def by_subject(findings):
    return {finding.subject: finding for finding in findings}


@pytest.mark.parametrize(
    ("found", "declared", "verdict"),
    [
        (Cpu(2, 96, "X", 2), {}, "pass"),
        (Cpu(2, 96, "X", 2), {"threads_per_core": 2, "model": "X"}, "pass"),
        (Cpu(2, 96, "X", 1), {"threads_per_core": 2}, "fail"),
        (Cpu(2, 96, "X", None), {"threads_per_core": 2}, "incomplete"),
        (Cpu(2, 96, None, 2), {"model": "X"}, "incomplete"),
        (Cpu(2, 96, "Y", 2), {"model": "X"}, "fail"),
        (Cpu(2, 96, "X", 2, "191"), {}, "fail"),
        (Cpu(2, 48, "X", 2), {}, "fail"),
        (Cpu(2, 48, "X", 2), {"cores": None}, "pass"),
        (Cpu(1, 48, "X", 2), {"cores": None}, "fail"),
        (Cpu(2, 96, "X", 2, "191"), {"cores": None}, "fail"),
    ],
)
def test_cpu_threads_model_and_what_is_off(expect, found, declared, verdict):
    expect["cpu"].update(declared)
    (finding,) = cpu.decide({"lscpu": replace(found, architecture="x86_64")}, typed(expect))
    assert finding.verdict == verdict
    said = f"number of cores is {found.cores}, none declared" in finding.reason
    assert said == (verdict == "pass" and "cores" in declared)


@pytest.mark.parametrize(("found", "verdict"), [("x86_64", "pass"), ("aarch64", "fail"), (None, "incomplete")])
def test_cpu_of_another_architecture(expect, found, verdict):
    (finding,) = cpu.decide({"lscpu": Cpu(2, 96, "X", 2, architecture=found)}, typed(expect))
    assert finding.verdict == verdict


def test_class_of_arm64_declares_no_microcode(expect):
    expect["cpu"] |= {"architecture": "aarch64", "microcode": "0x2b000603"}
    with pytest.raises(ReadError, match="aarch64 has none"):
        typed(expect)


@pytest.mark.parametrize(
    ("governors", "verdict"),
    [
        (dict.fromkeys(range(192), "performance"), "pass"),
        (dict.fromkeys(range(96), "performance"), "pass"),
        ({**dict.fromkeys(range(192), "performance"), 7: "powersave"}, "fail"),
        (dict.fromkeys(range(191), "performance"), "incomplete"),
    ],
)
def test_one_cpu_under_another_governor_fails(expect, governors, verdict):
    (finding,) = cpu_governor.decide({"cpufreq": governors}, typed(expect))
    assert (finding.subject, finding.verdict) == ("cpu", verdict)
    assert verdict != "fail" or "CPU 7" in finding.reason


# Where the class declares no cores, as lscpu counts them.
UNDECLARED = [
    (192, Cpu(2, 96, "X", 2), "pass"),
    (96, Cpu(2, 96, "X", 1), "pass"),
    (190, Cpu(2, 96, "X", 2), "incomplete"),
    (192, None, "incomplete"),
]


@pytest.mark.parametrize(("count", "found", "verdict"), UNDECLARED)
def test_cores_that_are_not_declared_are_those_of_lscpu(expect, count, found, verdict):
    expect["cpu"]["cores"] = None
    governors = {"cpufreq": dict.fromkeys(range(count), "performance"), "lscpu": found}
    for (finding,) in (
        cpu_governor.decide(governors, typed(expect)),
        microcode.decide({"cpuinfo": cpus(count), "lscpu": found}, typed(expect)),
    ):
        assert finding.verdict == verdict
        cores = found.cores if found else "an unknown number of"
        assert verdict == "pass" or f"expected some multiple of {cores} cores" in finding.reason


def test_declared_cores_count_before_those_of_lscpu(expect):
    half = {"lscpu": Cpu(1, 48, "X", 2)}
    governors = {"cpufreq": dict.fromkeys(range(48), "performance"), **half}
    assert cpu_governor.decide(governors, typed(expect))[0].verdict == "incomplete"
    assert microcode.decide({"cpuinfo": cpus(48), **half}, typed(expect))[0].verdict == "incomplete"


def cpus(count=192, **of_seven):
    healthy = [LogicalCpu(number, str(number % 2), "Xeon stepping 8", "0x2b000603") for number in range(count)]
    return tuple(replace(one, **of_seven) if one.number == 7 else one for one in healthy)


@pytest.mark.parametrize(
    ("found", "declared", "verdict"),
    [
        (cpus(), None, "pass"),
        (cpus(), "0x2b000603", "pass"),
        (cpus(), "0x2b000604", "fail"),
        (cpus(microcode="0x2b000590"), None, "fail"),
        (cpus(model="Xeon stepping 7"), None, "fail"),
        (cpus(microcode=None), None, "incomplete"),
        (cpus(count=191), None, "incomplete"),
    ],
)
def test_one_microcode_on_all_cpus(expect, found, declared, verdict):
    expect["cpu"]["microcode"] = declared
    (finding,) = microcode.decide({"cpuinfo": found}, typed(expect))
    assert finding.verdict == verdict
    assert declared or verdict != "pass" or "no version declared" in finding.reason


@pytest.mark.parametrize(("found", "verdict"), [("tsc", "pass"), ("hpet", "fail"), ("kvm-clock", "fail")])
def test_clock_source(expect, found, verdict):
    assert clocksource.decide({"clocksource": found}, typed(expect))[0].verdict == verdict


@pytest.mark.parametrize(
    ("nodes", "verdict", "action"),
    [
        ({0: Node(96, 1000), 1: Node(96, 970)}, "pass", "none"),
        ({0: Node(96, 1000), 1: Node(96, 969)}, "fail", "reseat"),
        ({0: Node(96, 1000), 1: Node(95, 1000)}, "fail", "investigate"),
        ({0: Node(192, 2000)}, "fail", "investigate"),
        ({number: Node(24, 250) for number in range(8)}, "fail", "investigate"),
        ({0: Node(0, 0), 1: Node(0, 0)}, "fail", "investigate"),
    ],
)
def test_numa_nodes_and_their_balance(expect, nodes, verdict, action):
    (finding,) = numa.decide({"numa": nodes}, typed(expect))
    assert (finding.verdict, finding.action) == (verdict, action)


@pytest.mark.parametrize(
    ("nodes", "declared", "verdict", "measured"),
    [
        ({2: Node(0, 500), 3: Node(0, 0)}, 1, "pass", 2),
        ({2: Node(0, 0)}, 1, "fail", 0),
        ({2: Node(0, 500), 3: Node(0, 500)}, 1, "fail", 2),
        ({2: Node(0, 0)}, 0, "pass", 2),
        ({2: Node(0, 500)}, 0, "fail", 1),
        # Not declared: every node has CPUs.
        ({2: Node(0, 500)}, None, "fail", 3),
        ({2: Node(0, 0)}, None, "fail", 3),
    ],
)
def test_numa_nodes_of_gpu_memory(expect, nodes, declared, verdict, measured):
    expect["numa"] |= {"gpu_memory_nodes": declared}
    (finding,) = numa.decide({"numa": {0: Node(96, 1000), 1: Node(96, 1000), **nodes}}, typed(expect))
    assert (finding.verdict, finding.measured) == (verdict, measured)


def test_host_on_which_no_numa_node_has_cpus(expect):
    expect["numa"] |= {"gpu_memory_nodes": 1}
    assert numa.decide({"numa": {0: Node(0, 500)}}, typed(expect))[0].verdict == "fail"


def edac(correctable=0, uncorrectable=0, of_dimm=True):
    dimm = Counts("A3", correctable if of_dimm else 0, uncorrectable if of_dimm else 0)
    return Edac((Counts("mc0", correctable, uncorrectable),), (dimm, Counts("A4", 0, 0)))


@pytest.mark.parametrize(
    ("found", "subject", "verdict", "action"),
    [
        (edac(), "host", "pass", "none"),
        (edac(50), "host", "pass", "investigate"),
        (edac(51), "dimm A3", "fail", "replace"),
        (edac(0, 1), "dimm A3", "fail", "replace"),
        (edac(51, of_dimm=False), "host", "fail", "investigate"),
        (edac(0, 1, of_dimm=False), "host", "fail", "investigate"),
        (edac(None), "host", "incomplete", "investigate"),
        (Edac((Counts("mc0", 0, 0),), (Counts("A3", 0, None),)), "host", "incomplete", "investigate"),
        # One error that is placed does not place all the others.
        (Edac((Counts("mc0", 52, 0),), (Counts("A3", 1, 0),)), "host", "fail", "investigate"),
        (Edac((Counts("mc0", 51, 0),), (Counts("A3", 1, 0),)), "host", "pass", "investigate"),
        (Edac((Counts("mc0", 26, 0), Counts("mc1", 25, 0)), (Counts("A3", 0, 0),)), "host", "fail", "investigate"),
    ],
)
def test_memory_errors(expect, found, subject, verdict, action):
    finding = by_subject(memory_errors.decide({"edac": found}, typed(expect)))[subject]
    assert (finding.verdict, finding.action) == (verdict, action)


SLOTS = [f"{socket}{slot}" for socket in "AB" for slot in range(1, 5)]


def modules(complete=True, **of_a3):
    return Modules(
        tuple(replace(Module(slot, 65536, 4400, None), **(of_a3 if slot == "A3" else {})) for slot in SLOTS), complete
    )


@pytest.mark.parametrize(
    ("declared", "found", "subject", "answer"),
    [
        ({}, modules(), "host", ("pass", "none")),
        ({}, modules(complete=False), "host", ("incomplete", "investigate")),
        ({"count": 8}, modules(complete=False), "host", ("pass", "none")),
        ({"count": 9}, modules(), "host", ("fail", "reseat")),
        ({"count": 8}, modules(mib=0), "host", ("fail", "reseat")),
        ({}, modules(mib=0), "host", ("fail", "reseat")),
        ({}, modules(mib=32768), "dimm A3", ("fail", "replace")),
        ({}, modules(mts=4000), "dimm A3", ("fail", "reseat")),
        ({}, modules(mts=None), "dimm A3", ("incomplete", "investigate")),
        ({}, modules(mib=None), "host", ("incomplete", "investigate")),
        ({"size_mib": 32768}, modules(), "dimm A1", ("fail", "replace")),
        ({"speed_mts": 4800}, modules(), "dimm A1", ("fail", "reseat")),
        ({"slots": SLOTS}, modules(), "dimm A3", ("pass", "none")),
        ({"slots": SLOTS}, modules(mib=0), "dimm A3", ("fail", "reseat")),
        ({"slots": [*SLOTS[:2], *SLOTS[3:]]}, modules(), "dimm A3", ("fail", "reseat")),
    ],
)
def test_memory_modules(expect, declared, found, subject, answer):
    expect["memory"]["dimms"].update(declared)
    finding = by_subject(dimms.decide({"dmidecode_memory": found}, typed(expect)))[subject]
    assert (finding.verdict, finding.action) == answer


def test_missing_module_is_named_by_its_slot(expect):
    expect["memory"]["dimms"]["slots"] = SLOTS
    assert "dimm A3" in dimms.subjects(typed(expect))
    found = by_subject(dimms.decide({"dmidecode_memory": modules(mib=0)}, typed(expect)))
    assert "A3" in found["dimm A3"].reason and "A3" in found["host"].reason


@pytest.mark.parametrize(("mib", "limit", "verdict"), [(0, 0, "pass"), (1, 0, "fail"), (None, 0, "incomplete")])
def test_swap(expect, mib, limit, verdict):
    expect["memory"]["swap_mib"] = limit
    assert swap.decide({"meminfo": Memory(1000, mib)}, typed(expect))[0].verdict == verdict


@pytest.mark.parametrize(
    ("found", "declared", "verdict"),
    [
        (HugePages({2048: 0}, None), {}, "pass"),
        (HugePages({2048: 512}, None), {}, "fail"),
        (HugePages({2048: 512}, None), {"reserved": [{"size_kib": 2048, "count": 512}]}, "pass"),
        (HugePages({2048: 0}, None), {"reserved": [{"size_kib": 1048576, "count": 4}]}, "fail"),
        (HugePages({2048: 0}, "madvise"), {"transparent": "madvise"}, "pass"),
        (HugePages({2048: 0}, "always"), {"transparent": "madvise"}, "fail"),
        (HugePages({2048: 0}, None), {"transparent": "madvise"}, "incomplete"),
    ],
)
def test_huge_pages(expect, found, declared, verdict):
    expect["memory"]["hugepages"].update(declared)
    assert hugepages.decide({"hugepages": found}, typed(expect))[0].verdict == verdict


@pytest.mark.parametrize(
    ("words", "verdict", "named"),
    [
        (("ro", "iommu=pt"), "pass", ""),
        (("iommu=soft", "iommu=nobypass,pt"), "pass", ""),
        (("iommu=pt", "iommu=off"), "fail", "iommu=pt"),
        (("ro",), "fail", "iommu=pt"),
        (("iommu=ptx",), "fail", "iommu=pt"),
        (("--", "iommu=pt"), "fail", "iommu=pt"),
        (("iommu=pt", "numa=off"), "fail", "numa=off"),
        (("iommu=pt", "pci=nomsi,noaer"), "fail", "pci=noaer"),
        (("iommu=pt", "nr-cpus=4"), "fail", "nr_cpus"),
    ],
)
def test_kernel_command_line(expect, words, verdict, named):
    (finding,) = kernel_command_line.decide({"cmdline": words}, typed(expect))
    assert finding.verdict == verdict and named in finding.reason


@pytest.mark.parametrize(
    ("kernels", "action", "named"),
    [
        (None, "investigate", "boot loader's configuration could not be read"),
        ((("root=/dev/sda1", "ro"),), "investigate", "not declared at the boot loader either"),
        ((("root=/dev/sda1", "iommu=pt"),), "reboot", "declared at the boot loader, reboot pending"),
        # Whichever kernel is chosen must be started with it.
        ((("root=/dev/sda1", "iommu=pt"), ("root=/dev/sda1", "ro")), "investigate", "not declared"),
    ],
)
def test_missing_parameter_waits_for_a_reboot_only_where_every_kernel_gets_it(expect, kernels, action, named):
    (finding,) = kernel_command_line.decide({"cmdline": ("ro",), "boot_loader": kernels}, typed(expect))
    assert (finding.verdict, finding.action) == ("fail", action) and named in finding.reason


@pytest.fixture
def devices():
    return lspci.parse(Output((HEALTHY / "lspci.txt").read_text()))


GPU, NIC, DRIVE = "0000:0b:00.0", "0000:3c:00.0", "0000:18:00.0"


@pytest.mark.parametrize(
    ("address", "change", "answer"),
    [
        (GPU, {}, (f"gpu SXM1 {GPU}", "pass")),
        (GPU, {"link": lspci.Link(32.0, 8)}, (f"gpu SXM1 {GPU}", "fail")),
        (GPU, {"link": lspci.Link(16.0, 16)}, (f"gpu SXM1 {GPU}", "fail")),
        (GPU, {"link": lspci.Link(2.5, 16)}, (f"gpu SXM1 {GPU}", "pass")),
        (GPU, {"link": lspci.Link(2.5, 16), "capable": None}, (f"gpu SXM1 {GPU}", "incomplete")),
        (GPU, {"link": lspci.Link(2.5, 8)}, (f"gpu SXM1 {GPU}", "fail")),
        (GPU, {"link": None}, (f"gpu SXM1 {GPU}", "incomplete")),
        (GPU, {"kind": "Bridge"}, (f"gpu SXM1 {GPU}", "fail")),
        (NIC, {"link": lspci.Link(32.0, 8)}, (f"nic {NIC}", "fail")),
        (NIC, {"link": lspci.Link(16.0, 16)}, (f"nic {NIC}", "fail")),
        (NIC, {"link": None}, ("host", "incomplete")),
        (NIC, {"link": lspci.Link(32.0, 8), "capable": lspci.Link(32.0, 8)}, (f"nic {NIC}", "fail")),
        (DRIVE, {"link": lspci.Link(16.0, 2)}, (f"nvme {DRIVE}", "fail")),
    ],
)
def test_pcie_links(expect, devices, address, change, answer):
    devices[address] = replace(devices[address], **change)
    subject, verdict = answer
    assert by_subject(pcie_links.decide({"lspci": devices}, typed(expect)))[subject].verdict == verdict


def test_absent_devices_are_named_or_counted(expect, devices):
    del devices[GPU], devices[NIC]
    found = by_subject(pcie_links.decide({"lspci": devices}, typed(expect)))
    assert (found[f"gpu SXM1 {GPU}"].verdict, found[f"gpu SXM1 {GPU}"].measured) == ("fail", "absent")
    assert found["host"].verdict == "incomplete" and "7 fast NICs" in found["host"].reason


@pytest.mark.parametrize(("width", "verdict"), [(8, "pass"), (16, "fail")])
def test_a_declared_slot_is_judged_by_its_declaration(expect, devices, width, verdict):
    devices[NIC] = replace(devices[NIC], link=lspci.Link(32.0, 8))
    expect["pcie"]["devices"] = [{"name": "nic front", "address": NIC, "speed_gts": 32, "width": width}]
    found = by_subject(pcie_links.decide({"lspci": devices}, typed(expect)))
    assert found["nic front"].verdict == verdict and found["host"].verdict == "pass"


def bridge_above(devices, address):
    return lspci.above(address, devices)[0]


@pytest.mark.parametrize(
    ("change", "enabled", "verdict"),
    [
        ({}, False, "pass"),
        ({}, True, "fail"),
        ({"acs": ("SrcValid", "ReqRedir")}, False, "fail"),
        ({"acs": None}, False, "pass"),
        ({"readable": False}, False, "incomplete"),
        ({"port": "Upstream Port"}, False, "incomplete"),
    ],
)
def test_access_control_above_a_gpu(expect, devices, change, enabled, verdict):
    expect["pcie"]["acs_enabled"] = enabled
    bridge = bridge_above(devices, GPU)
    devices[bridge.address] = replace(bridge, **change)
    (finding,) = acs.decide({"lspci": devices}, typed(expect))
    assert finding.verdict == verdict
    assert verdict != "fail" or enabled or (bridge.address in finding.reason and GPU in finding.reason)


def test_access_control_elsewhere_does_not_matter(expect, devices):
    bridge = bridge_above(devices, DRIVE)
    devices[bridge.address] = replace(bridge, acs=("SrcValid",))
    assert acs.decide({"lspci": devices}, typed(expect))[0].verdict == "pass"


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (cpu_governor, {"cpu": {"governor": None}}),
        (clocksource, {"clock": {"clocksource": None}}),
        (numa, {"numa": None}),
        (memory_errors, {"memory": {"errors": None}}),
        (dimms, {"memory": {"dimms": None}}),
        (swap, {"memory": {"swap_mib": None}}),
        (hugepages, {"memory": {"hugepages": None}}),
        (kernel_command_line, {"kernel": None}),
        (pcie_links, {"pcie": None}),
        (acs, {"pcie": None}),
    ],
)
def test_a_class_that_declares_nothing_owes_nothing(expect, check, change):
    for section, values in change.items():
        expect[section] = {**expect[section], **values} if values else None
    assert not check.subjects(typed(expect))
