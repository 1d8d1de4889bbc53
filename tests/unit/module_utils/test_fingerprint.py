"""What a host consists of: each component's value, what leaves it unread, and which serial numbers stand in it."""

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.formats.nvme import Drive
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import (
    CLOSING,
    COMPONENTS,
    DEPENDS,
    PROBES,
    TABLE,
    fingerprint_of,
    parts_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.probes.cpuinfo import LogicalCpu
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode import Firmware
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode_memory import Module, Modules
from ansible_collections.muster.cluster.plugins.module_utils.probes.infiniband import Device
from ansible_collections.muster.cluster.plugins.module_utils.probes.mlxlink import Link, Links

from tests.typed import typed

OPTIC = "Optical Module (separated)"


def of(host, expect, stage="preflight"):
    return fingerprint_of(registry.examine(stage, host, typed(expect)).values, typed(expect))


def test_fingerprint_of_nothing_is_unread():
    assert fingerprint_of({}) == dict.fromkeys(COMPONENTS)


def test_every_component_says_what_it_voids_and_why():
    assert [name for name, each in TABLE.items() if not each.stages or not each.why] == []
    assert {name for names in DEPENDS.values() for name in names} == {*COMPONENTS}
    assert DEPENDS["preflight"] == COMPONENTS
    # What closes a node in service by itself is what makes it another machine.
    assert CLOSING == ("gpu_serials", "nic_guids")


@pytest.mark.parametrize("stage", ["preflight", "burn_in"])
def test_healthy_host_is_read_whole_and_the_same_in_both_stages(fake_host, expect, stage):
    found = of(fake_host, expect, stage)
    assert {name for name, value in found.items() if value is None} == set()
    assert found == of(fake_host, expect)
    assert (found["bmc_firmware"], found["bios"], found["fabric_manager"]) == ("1.01", "1.4", "570.86.15")
    assert found["cpus"] == "2 x Intel(R) Xeon(R) Platinum 8468 stepping 8"
    assert found["board"] == ("product=HGX carrier,serial=LAB-gpu-01,uuid=00000000-0000-4000-8000-000000000000")
    assert str(found["dimms"]).startswith("A10=LAB64G-4800/51000009,A11=")
    assert (found["rdma_core"], found["container_runtime"], found["storage_client"]) == ("50.0", "none", "none")
    assert found["pytorch"] == "2.8.0+cu128 nccl 2.27.3 python 3.12.3 in /opt/muster/pytorch-5f1c9a02e7d4"


@pytest.mark.parametrize(
    ("key", "exchanged", "components"),
    [
        ("dmidecode -t memory", ("51000003", "51000099"), {"dimms"}),
        ("dmidecode -t 0,1,2", ("Version: 1.4", "Version: 1.5"), {"bios"}),
        ("dmidecode -t 0,1,2", ("00000000-0000-4000", "00000000-0001-4000"), {"board"}),
        ("/proc/cpuinfo", ("0x2b000603", "0x2b000604"), {"microcode"}),
        ("/proc/cpuinfo", ("stepping\t: 8", "stepping\t: 7"), {"cpus"}),
        ("ipmitool mc info", ("1.01", "1.02"), {"bmc_firmware"}),
        ("nv-fabricmanager", ("570.86.15", "570.86.16"), {"fabric_manager"}),
        ("mlxlink", ("OSFP-400G-DR4", "OSFP-400G-FR4"), {"cables"}),
        ("/sys/class/nvme/nvme2/serial", ("LAB", "LAC"), {"drives"}),
        ("/sys/class/nvme/nvme2/firmware_rev", ("GDC7302Q", "GDC7302R"), {"drive_firmware"}),
        ("/sys/class/infiniband/mlx5_3/node_guid", (":", ":a"), {"nic_guids"}),
        ("/sys/class/infiniband/mlx5_3/fw_ver", ("28.43", "28.42"), {"nic_firmware"}),
    ],
)
def test_exchanged_part_or_version_changes_its_component_alone(fake_host, expect, key, exchanged, components):
    before = of(fake_host, expect)
    text = fake_host.outputs[key].stdout
    assert exchanged[0] in text
    fake_host.outputs[key] = Output(text.replace(*exchanged))
    after = of(fake_host, expect)
    assert {name for name in COMPONENTS if before[name] != after[name]} == components
    assert None not in after.values()


@pytest.mark.parametrize(
    ("key", "components"),
    [
        ("dmidecode -t memory", {"dimms"}),
        ("dmidecode -t 0,1,2", {"board", "bios"}),
        ("/proc/cpuinfo", {"cpus", "microcode"}),
        ("ipmitool mc info", {"bmc_firmware"}),
        ("nv-fabricmanager", {"fabric_manager"}),
        ("mlxlink", {"cables"}),
        ("/sys/class/nvme/nvme2/serial", {"drives"}),
        ("/sys/class/nvme/nvme2/firmware_rev", {"drive_firmware"}),
    ],
)
def test_what_gives_no_answer_leaves_its_components_unread_and_preflight_says_so(fake_host, expect, key, components):
    fake_host.outputs[key] = Output(rc=None, error="no answer")
    found = registry.examine("preflight", fake_host, typed(expect))
    unread = {name for name, value in fingerprint_of(found.values, typed(expect)).items() if value is None}
    assert unread == components
    (finding,) = [item for item in found.findings if item.check == "fingerprint"]
    assert finding.verdict == "incomplete"
    assert all(name in finding.reason for name in components)


def test_what_a_class_does_not_have_is_none_and_not_unread(fake_host, expect):
    without = {
        **expect,
        **dict.fromkeys(("gpu", "gpu_stack", "nvlink", "nic", "nvme", "bmc")),
        "memory": {**expect["memory"], "dimms": None},
    }
    found = fingerprint_of({}, typed(without))
    none = {name for name, value in found.items() if value == "none"}
    assert none == {
        *("gpu_serials", "gpu_vbios", "gpu_driver", "fabric_manager", "nic_guids", "nic_firmware", "cables"),
        *("rdma_core", "drives", "drive_firmware", "dimms", "bmc_firmware", "container_runtime", "nvlink_domain"),
    }
    assert {found[name] for name in set(COMPONENTS) - none} == {None}


def test_bmc_whose_own_document_is_not_declared_has_no_firmware_to_read(expect):
    redfish = {"address": "bmc", "netrc": "/etc/netrc", "certificate": None}
    for documents, value in (["/redfish/v1/Managers/1"], None), (["/redfish/v1/Chassis/1/Thermal"], "none"):
        bmc = {**expect["bmc"], "interface": "redfish", "redfish": {**redfish, "documents": documents}}
        assert fingerprint_of({}, typed({**expect, "bmc": bmc}))["bmc_firmware"] == value


def test_fingerprint_follows_serials_and_slots(fake_host, expect, make_gpu_xml):
    before = of(fake_host, expect)
    assert before["gpu_serials"] == "0000:1b:00.0=1651,0000:ab:00.0=1652"
    fake_host.outputs["nvidia-smi"] = Output(make_gpu_xml(["00000000:AB:00.0", "00000000:1B:00.0"]))
    swapped = of(fake_host, expect)
    assert {name for name in COMPONENTS if swapped[name] != before[name]} == {"gpu_serials"}


def test_one_unread_serial_leaves_the_component_unread(fake_host, expect, make_gpu_xml):
    fake_host.outputs["nvidia-smi"] = Output(make_gpu_xml(["00000000:AB:00.0"], serial="N/A"))
    assert of(fake_host, expect)["gpu_serials"] is None


NICS = {name: Device(name, firmware="28.43", guid=f"guid-{name}") for name in ("mlx5_0", "mlx5_1", "mlx5_9")}
# Of the first two rails, and of a card beside them.
NAMES = Names({"0000:1a:00.0": ["mlx5_0"], "0000:3c:00.0": ["mlx5_1"], "0000:1b:00.0": ["mlx5_9"]})


@pytest.mark.parametrize(
    ("devices", "guids", "firmware"),
    [
        (NICS, "rail0=guid-mlx5_0,rail1=guid-mlx5_1", "28.43"),
        ({**NICS, "mlx5_1": replace(NICS["mlx5_1"], guid=None)}, None, "28.43"),
        ({**NICS, "mlx5_1": Device("mlx5_1", guid="g")}, "rail0=guid-mlx5_0,rail1=g", None),
        (
            {**NICS, "mlx5_1": replace(NICS["mlx5_1"], firmware="28.39")},
            "rail0=guid-mlx5_0,rail1=guid-mlx5_1",
            "28.39,28.43",
        ),
        ({"mlx5_0": NICS["mlx5_0"]}, "rail0=guid-mlx5_0", "28.43"),
        ({"mlx5_0": replace(NICS["mlx5_0"], model="MT4126")}, "rail0=guid-mlx5_0 (virtual)", "28.43"),
        ({"mlx5_9": NICS["mlx5_9"]}, None, None),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_nics_are_the_rails_that_are_there_and_unread_where_one_of_them_is(expect, devices, guids, firmware):
    two = {**expect["nic"], "rails": expect["nic"]["rails"][:2]}
    values = {"infiniband": devices, "rail_names": NAMES}
    found = fingerprint_of(values, typed({**expect, "nic": two}))
    assert (found["nic_guids"], found["nic_firmware"]) == (guids, firmware)
    unnamed = fingerprint_of({**values, "rail_names": None}, typed({**expect, "nic": two}))
    assert (unnamed["nic_guids"], unnamed["nic_firmware"]) == (None, None)


def test_a_host_is_the_same_whatever_the_system_calls_its_nics(expect):
    def of_names(first, second):
        devices = {name: replace(NICS[old], name=name) for name, old in ((first, "mlx5_0"), (second, "mlx5_1"))}
        names = Names({"0000:1a:00.0": [first], "0000:3c:00.0": [second]})
        values = {"infiniband": devices, "rail_names": names, "mlxlink": LINKS}
        return fingerprint_of(values, typed({**expect, "nic": {**expect["nic"], "rails": expect["nic"]["rails"][:2]}}))

    before = of_names("mlx5_0", "mlx5_1")
    assert before["nic_guids"] == "rail0=guid-mlx5_0,rail1=guid-mlx5_1" and before["cables"] == "rail0=P/S0,rail1=P/S1"
    assert of_names("rocep26s0", "rocep60s0") == of_names("mlx5_1", "mlx5_2") == before


LINKS = Links({f"rail{rail}": Link(part="P", serial=f"S{rail}", cable_type=OPTIC) for rail in range(2)}, {})


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        (Link(part="OSFP-DR4", serial="MT1", cable_type=OPTIC), "rail0=OSFP-DR4/MT1"),
        (Link(part="MCP4Y10", serial="MT2", cable_type="Passive copper cable"), "rail0=MCP4Y10/MT2 (cable)"),
        (Link(vendor="Acme", cable_type="Passive copper cable"), "rail0=Acme/unspecified (cable)"),
        (Link(cable_type="Cable unplugged"), "rail0=unspecified/unspecified (cable)"),
        # The module's memory could not be read: no other cable, none that is known.
        (Link(cable_type="Unidentified"), None),
        (Link(), None),
        (None, None),
    ],
)
def test_cable_of_a_rail(expect, link, shown):
    one = typed({**expect, "nic": {**expect["nic"], "rails": expect["nic"]["rails"][:1]}})
    values = {"infiniband": NICS, "rail_names": NAMES, "mlxlink": Links({"rail0": link} if link else {}, {})}
    assert fingerprint_of(values, one)["cables"] == shown


def test_cable_of_a_nic_that_is_gone_is_gone_with_it(expect):
    two = typed({**expect, "nic": {**expect["nic"], "rails": expect["nic"]["rails"][:2]}})
    links = Links({"rail1": Link(part="P", serial="S1", cable_type=OPTIC)}, {"rail0": "Failed to open device"})
    gone = Names({"0000:3c:00.0": ["mlx5_1"]})
    values = {"infiniband": {"mlx5_1": NICS["mlx5_1"]}, "rail_names": gone, "mlxlink": links}
    assert fingerprint_of(values, two)["cables"] == "rail1=P/S1"
    assert fingerprint_of({**values, "infiniband": NICS, "rail_names": NAMES}, two)["cables"] is None


def test_memory_modules_without_serial_numbers_are_known_by_part_and_empty_slots_are_none(expect):
    slots = (Module("A1", 65536, 4800, "M321"), Module("A2", 0, None, None), Module("A,3=x", 65536, 4800, None, "7F"))
    found = fingerprint_of({"dmidecode_memory": Modules(slots, complete=True)}, typed(expect))["dimms"]
    assert found == "A1=M321/unspecified,A_3_x=unspecified/7F"


def test_firmware_that_does_not_tell_was_asked_all_the_same(expect):
    found = fingerprint_of({"dmidecode": Firmware(None, None, None, None)}, typed(expect))
    assert (found["board"], found["bios"]) == ("product=unspecified,serial=unspecified,uuid=unspecified", "unspecified")


def test_cpus_of_two_models_are_both_told():
    cpus = (LogicalCpu(0, "0", "A stepping 8", "0x1"), LogicalCpu(1, "1", "A stepping 7", "0x2"))
    found = fingerprint_of({"cpuinfo": cpus})
    assert (found["cpus"], found["microcode"]) == ("1 x A stepping 7,1 x A stepping 8", "0x1,0x2")
    found = fingerprint_of({"cpuinfo": (cpus[0], replace(cpus[1], model=None, microcode=None))})
    assert (found["cpus"], found["microcode"]) == (None, None)


def test_drives_are_those_of_the_class(expect):
    drives = (Drive("nvme0", "0000:18:00.0", "boot", "B1", "1.0"), Drive("nvme1", "0000:3a:00.0", "data", "D1", "2.0"))
    wanted = typed({**expect, "nvme": {**expect["nvme"], "count": 1, "model": "data"}})
    found = fingerprint_of({"nvme_sysfs": drives}, wanted)
    assert (found["drives"], found["drive_firmware"]) == ("0000:3a:00.0=D1", "2.0")
    assert fingerprint_of({"nvme_sysfs": ()}, wanted)["drives"] is None


def test_an_error_after_burn_in_changes_what_burn_in_depends_on(fake_host, expect):
    def after(*lines: str) -> str | None:
        host = FakeLog(fake_host, lines)
        return of(host, expect)["gpu_errors"]

    assert after() == "none"
    # A user's program that failed says nothing about the GPU.
    assert after("NVRM: Xid (PCI:0000:ab:00): 31, pid=9, MMU Fault") == "none"
    lost = after("NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.")
    assert lost not in (None, "none")
    assert "gpu_errors" in DEPENDS["burn_in"]


class FakeLog:
    """The fake host with more lines in its kernel log."""

    def __init__(self, host, lines):
        self.host = host
        self.lines = lines

    def run(self, argv, timeout_seconds):
        output = self.host.run(argv, timeout_seconds)
        if argv[0] != "journalctl":
            return output
        more = "".join(f"2026-11-20T09:00:09+0000 n1 kernel: {line}\n" for line in self.lines)
        return Output(output.stdout + more)

    def read(self, path):
        return self.host.read(path)

    def paths(self, *patterns):
        return self.host.paths(*patterns)


def test_preflight_asks_cables_and_bmc_for_no_more_than_who_they_are():
    asked = registry.probes_of("preflight")
    assert {"cables", "redfish_manager"} <= {*asked} and not {"mlxlink", "redfish"} & {*asked}
    assert {*PROBES} - {"mlxlink", "redfish"} <= {*asked}
    assert {*PROBES} <= {*registry.probes_of("burn_in")}


@pytest.mark.parametrize(
    ("component", "text", "parts"),
    [
        (
            "gpu_serials",
            "0000:1b:00.0=1651001,0000:ab:00.0=1651002",
            [("gpu", "0000:1b:00.0", "1651001"), ("gpu", "0000:ab:00.0", "1651002")],
        ),
        ("nic_guids", "rail0=b83f:d203:000a:7c10", [("nic", "rail0", "b83f:d203:000a:7c10")]),
        ("nic_guids", "rail0=b83f:d203:000a:7c10 (virtual)", []),
        ("nic_guids", "rail0=0000:0000:0000:0000", []),
        (
            "dimms",
            "A1=M321/80CE0123,B1=M321/80CE0124",
            [("dimm", "A1", "M321/80CE0123"), ("dimm", "B1", "M321/80CE0124")],
        ),
        # Nobody knows which of the two it is.
        ("dimms", "A1=M321/80CE0123,B1=M321/80CE0123,C1=M321/80CE0125", [("dimm", "C1", "M321/80CE0125")]),
        ("dimms", "A1=M321/unspecified,A2=M321/00000000", []),
        ("drives", "0000:18:00.0=S5XA1234", [("drive", "0000:18:00.0", "S5XA1234")]),
        (
            "cables",
            "rail0=OSFP-DR4/MT2231VS,rail1=MCP4Y10/MT2345 (cable)",
            [("module", "rail0", "OSFP-DR4/MT2231VS")],
        ),
        ("board", "serial=LAB-1", []),
        ("gpu_serials", "none", []),
        ("gpu_serials", "", []),
        ("gpu_serials", None, []),
        ("gpu_serials", ["x"], []),
    ],
)
def test_parts_are_those_whose_serial_number_is_their_own(component, text, parts):
    assert parts_of({component: text}) == parts


@pytest.mark.parametrize("listed", [True, False])
def test_lost_gpu_is_no_other_gpu_and_leaves_what_hosts_are_told_apart_by_unread(fake_host, expect, listed):
    before, healthy = of(fake_host, expect), fake_host.outputs["nvidia-smi"].stdout
    if listed:
        first, second = healthy.split("<gpu id=", 2)[1:]
        assert "32 C" in second and "32 C" in first
        lost = Output(healthy.replace(second, second.replace("32 C", "GPU is lost")))
    else:
        second = healthy[healthy.index('\t<gpu id="00000000:AB') : healthy.index("</nvidia_smi_log>")]
        line = "Unable to determine the device handle for GPU1: 0000:AB:00.0: GPU is lost.  Reboot the system\n"
        lost = Output(healthy.replace(second, ""), line)
    fake_host.outputs["nvidia-smi"] = lost
    after = of(fake_host, expect)
    changed = {name: after[name] for name in COMPONENTS if after[name] != before[name]}
    assert changed == {"gpu_serials": None, "gpu_vbios": None}


def test_pytorch_is_what_storage_and_acceptance_rest_on(fake_host, expect):
    assert [stage for stage, names in DEPENDS.items() if "pytorch" in names] == ["preflight", "acceptance", "storage"]
    python = expect["pytorch"]["python"]
    # Another environment of the same version is another one.
    fake_host.outputs[python] = Output(fake_host.outputs[python].stdout.replace("5f1c9a02e7d4", "0123456789ab"))
    assert (
        of(fake_host, expect)["pytorch"] == "2.8.0+cu128 nccl 2.27.3 python 3.12.3 in /opt/muster/pytorch-0123456789ab"
    )
    fake_host.outputs[python] = Output(rc=None, error=f"{python}: No such file or directory")
    assert of(fake_host, expect)["pytorch"] is None


def test_nvlink_domain_is_read_of_classes_that_have_one(fake_host, expect):
    assert of(fake_host, expect)["nvlink_domain"] == "none"
    domain = {"hosts": 18, "imex": None}
    expect["nvlink"] |= {"fabric_manager": False, "fabric_manager_log": None, "domain": domain}
    assert of(fake_host, expect)["nvlink_domain"] == "00000000-0000-0000-0000-000000000000/0"
    fake_host.outputs["nvidia-smi -q -x"] = Output("")
    assert of(fake_host, expect)["nvlink_domain"] is None
    assert [stage for stage, names in DEPENDS.items() if "nvlink_domain" in names] == ["preflight", "acceptance"]
