"""Checks of the kernel log: which line blames which part, and what a line does not mean."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import worst

from tests.typed import typed

CHECKED = (
    "filesystem_log",
    "gpu_log",
    "kernel_crash",
    "machine_check",
    "mount_log",
    "nic_log",
    "nvme_log",
    "oom_log",
    "pcie_errors",
    "program_crash",
    "sxid",
)
BANNER = "[    0.000000] Linux version 6.1\n"


def findings(check, expect, *lines, **values):
    text = BANNER + "".join(f"[{10 + index}.0] {line}\n" for index, line in enumerate(lines))
    found = CHECKS[check].decide({"kernel_log": kernel_log.parse(Output(text)), **values}, typed(expect))
    assert len({item.subject for item in found}) == len(found)
    return {item.subject: item for item in found}


@pytest.mark.parametrize("check", CHECKED)
def test_silent_log_passes_the_host(check, expect):
    found = findings(check, expect)
    assert [(subject, item.verdict, item.reason) for subject, item in found.items()] == [("host", "pass", "")]


@pytest.mark.parametrize(
    "case",
    [
        ("pcie_errors", "pcieport 0000:00:01.0: AER: Corrected error received: 0000:ab:00.0", None, "pass", "none"),
        (
            "pcie_errors",
            "nvidia 0000:ab:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
            "gpu SXM6 0000:ab:00.0",
            "fail",
            "reseat",
        ),
        (
            "pcie_errors",
            "nvme 0000:03:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Data Link Layer",
            "pci 0000:03:00.0",
            "fail",
            "reseat",
        ),
        (
            "pcie_errors",
            "pcieport 0000:00:1b.2: AER: Uncorrectable (Fatal) error message received from 0000:1b:00.0",
            "gpu SXM1 0000:1b:00.0",
            "fail",
            "reseat",
        ),
        (
            "pcie_errors",
            "pcieport 0000:97:01.0: DPC: containment event, status:0x1f01 source:0x0000",
            "pci 0000:97:01.0",
            "fail",
            "reseat",
        ),
        ("pcie_errors", "pcieport 0000:97:01.0: DPC: enabled with IRQ 34", None, "pass", "none"),
        ("pcie_errors", "pcieport 0000:97:01.0: AER: enabled with IRQ 34", None, "pass", "none"),
        ("pcie_errors", "acpi PNP0A08:31: _OSC: platform does not support [SHPCHotplug AER DPC]", None, "pass", "none"),
        ("pcie_errors", "pcieport 0000:97:01.0: AER: device recovery failed", "pci 0000:97:01.0", "fail", "reboot"),
        ("pcie_errors", "pcieport 0000:97:01.0: AER: device recovery successful", None, "pass", "none"),
        ("pcie_errors", "pcieport 0000:97:01.0: pciehp: Slot(41): Link Down", "pci 0000:97:01.0", "fail", "reseat"),
        (
            "pcie_errors",
            "pci 0000:1b:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at "
            "0000:01:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
            "gpu SXM1 0000:1b:00.0",
            "fail",
            "investigate",
        ),
        (
            "pcie_errors",
            "pci 0000:03:00.0: 15.752 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x2 link at 0000:00:1c.0 "
            "(capable of 31.504 Gb/s with 8.0 GT/s PCIe x4 link)",
            "pci 0000:03:00.0",
            "pass",
            "investigate",
        ),
        (
            "machine_check",
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#1 (channel:0 slot:1)",
            "dimm CPU_SrcID#0_MC#0_Chan#0_DIMM#1",
            "fail",
            "replace",
        ),
        ("machine_check", "EDAC MC0: 10 CE memory read error on DIMM_A1 (channel:0 slot:1)", None, "pass", "none"),
        (
            "machine_check",
            "EDAC MC0: 11 CE memory read error on DIMM_A1 (channel:0 slot:1)",
            "dimm DIMM_A1",
            "fail",
            "replace",
        ),
        (
            "machine_check",
            "EDAC MC0: 1 CE memory read error on DIMM_A1 (channel:0 -  OVERFLOW err_code:0x1)",
            "dimm DIMM_A1",
            "fail",
            "replace",
        ),
        (
            "machine_check",
            'EDAC MC0: UE page 0x1, offset 0x2, grain 8, row 0, labels ":": x label "DIMM_B2": amd64',
            "dimm DIMM_B2",
            "fail",
            "replace",
        ),
        (
            "machine_check",
            "EDAC MC0: 1 UE on mc#0csrow#2channel#3 (csrow:2 channel:3 page:0x0)",
            "dimm mc#0csrow#2channel#3",
            "fail",
            "replace",
        ),
        (
            "machine_check",
            "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0",
            None,
            "pass",
            "none",
        ),
        (
            "machine_check",
            "mce: [Hardware Error]: CPU 5: Machine Check Exception: 5 Bank 7: be00000000800400",
            "cpu",
            "fail",
            "investigate",
        ),
        (
            "machine_check",
            "mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 7: 8c00004000010091",
            None,
            "pass",
            "none",
        ),
        (
            "machine_check",
            "mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 7: cc00004000010091",
            "cpu",
            "fail",
            "investigate",
        ),
        ("machine_check", "mce: [Hardware Error]: Machine check events logged", "host", "pass", "investigate"),
        (
            "machine_check",
            "mce: Uncorrected hardware memory error in user-access at 2df1800",
            "host",
            "fail",
            "replace",
        ),
        (
            "machine_check",
            "mce: CPU5: Package temperature above threshold, cpu clock throttled",
            "cpu",
            "fail",
            "investigate",
        ),
        ("machine_check", "mce: CPU0: Thermal monitoring enabled (TM1)", None, "pass", "none"),
        ("machine_check", "MCE: In-kernel MCE decoding enabled.", None, "pass", "none"),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at "
            "0000:15:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)",
            "nic 0000:19:00.0",
            "fail",
            "reseat",
        ),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
            None,
            "pass",
            "none",
        ),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot",
            None,
            "pass",
            "none",
        ),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module",
            "nic 0000:19:00.0",
            "fail",
            "reseat",
        ),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: wait_func:1195:(pid 9): ENABLE_HCA(0x104) timeout. Will cause a leak",
            "nic 0000:19:00.0",
            "fail",
            "reboot",
        ),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: poll_health:814:(pid 0): device's health compromised - reached miss count",
            "nic 0000:19:00.0",
            "fail",
            "reboot",
        ),
        ("nic_log", "mlx5_core 0000:19:00.0 ens1np0: TX timeout detected", "nic 0000:19:00.0", "fail", "investigate"),
        (
            "nic_log",
            "NETDEV WATCHDOG: ens1np0 (mlx5_core): transmit queue 3 timed out",
            "nic ens1np0",
            "fail",
            "investigate",
        ),
        (
            "nic_log",
            "mlx5_core 0000:19:00.0: ACCESS_REG(0x805) op_mod(0x1) failed, status bad",
            "nic 0000:19:00.0",
            "incomplete",
            "investigate",
        ),
        (
            "gpu_log",
            "NVRM: GPU 0000:ab:00.0: RmInitAdapter failed! (0x24:0x65:1423)",
            "gpu SXM6 0000:ab:00.0",
            "fail",
            "reset_gpu",
        ),
        ("gpu_log", "NVRM: rm_init_adapter failed, device minor number 3", "host", "fail", "reset_gpu"),
        ("gpu_log", "NVRM: The NVIDIA probe routine failed for 1 device(s).", "host", "fail", "reboot"),
        (
            "gpu_log",
            "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping",
            "host",
            "fail",
            "investigate",
        ),
        (
            "gpu_log",
            "nvidia 0000:ab:00.0: Unable to change power state from D3cold to D0, device inaccessible",
            "gpu SXM6 0000:ab:00.0",
            "fail",
            "reboot",
        ),
        ("gpu_log", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15  Release Build", None, "pass", "none"),
        ("nvme_log", "nvme nvme3: I/O 12 QID 3 timeout, aborting", "nvme nvme3", "fail", "replace"),
        (
            "nvme_log",
            "nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
            "nvme nvme3",
            "fail",
            "replace",
        ),
        ("nvme_log", "critical medium error, dev nvme3n1, sector 1234 op 0x0:(READ)", "nvme nvme3", "fail", "replace"),
        (
            "nvme_log",
            "blk_update_request: I/O error, dev nvme3n1, sector 0 op 0x0:(READ)",
            "nvme nvme3",
            "fail",
            "replace",
        ),
        ("nvme_log", "nvme nvme3: 104/0/0 default/read/poll queues", None, "pass", "none"),
        ("nvme_log", "nvme nvme3: Shutdown timeout set to 11 seconds", None, "pass", "none"),
        ("mount_log", "nfs: server nas1 not responding, still trying", "host", "incomplete", "investigate"),
        ("mount_log", "nfs: server nas1 not responding, timed out", "host", "fail", "investigate"),
        (
            "mount_log",
            "LustreError: 167-0: fs-OST0002-osc-ff11: This client was evicted by fs-OST0002; in progress",
            "host",
            "fail",
            "investigate",
        ),
        ("oom_log", "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_1", None, "pass", "none"),
        ("oom_log", "Memory cgroup out of memory: Killed process 12 (python)", None, "pass", "none"),
        ("oom_log", "Out of memory: Killed process 12 (python) total-vm:1kB", "host", "fail", "investigate"),
        ("oom_log", "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)", "host", "fail", "investigate"),
        (
            "filesystem_log",
            "EXT4-fs error (device md0): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
            "host",
            "fail",
            "investigate",
        ),
        ("filesystem_log", "EXT4-fs (md0): Remounting filesystem read-only", "host", "fail", "investigate"),
        (
            "filesystem_log",
            "EXT4-fs (md0): mounted filesystem with ordered data mode. Opts: (null)",
            None,
            "pass",
            "none",
        ),
        ("filesystem_log", "EXT4-fs (md0): re-mounted. Opts: errors=remount-ro", None, "pass", "none"),
        (
            "filesystem_log",
            "XFS (md1): Metadata corruption detected at xfs_agf_read_verify",
            "host",
            "fail",
            "investigate",
        ),
        ("filesystem_log", "I/O error, dev sda, sector 1234 op 0x0:(READ) flags 0x0", "host", "fail", "replace"),
        ("filesystem_log", "md/raid1:md0: Disk failure on nvme0n1p2, disabling device.", "host", "fail", "replace"),
        (
            "kernel_crash",
            "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:12]",
            "host",
            "fail",
            "investigate",
        ),
        (
            "kernel_crash",
            "INFO: task kworker/3:1:123 blocked for more than 120 seconds.",
            "host",
            "fail",
            "investigate",
        ),
        (
            "kernel_crash",
            "INFO: task tokio runtime w:4711 blocked for more than 120 seconds.",
            "host",
            "fail",
            "investigate",
        ),
        ("kernel_crash", "rcu: INFO: rcu_sched self-detected stall on CPU", "host", "fail", "investigate"),
        ("kernel_crash", "BUG: unable to handle page fault for address: ffff", "host", "fail", "investigate"),
        # As arm64 words it.
        (
            "kernel_crash",
            "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000008",
            "host",
            "fail",
            "investigate",
        ),
        ("kernel_crash", "Internal error: Oops: 0000000096000004 [#1] SMP", "host", "fail", "investigate"),
        ("kernel_crash", "SError Interrupt on CPU17, code 0xbe000011 -- SError", "host", "fail", "investigate"),
        ("kernel_crash", "Kernel panic - not syncing: Fatal exception", "host", "fail", "investigate"),
        ("kernel_crash", "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.", None, "pass", "none"),
        (
            "program_crash",
            "python[12]: segfault at 0 ip 0 sp 0 error 4 in libcuda.so.570.86.15[7f+1]",
            "host",
            "fail",
            "investigate",
        ),
        ("program_crash", "python[12]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6[7f+1]", None, "pass", "none"),
        (
            "program_crash",
            "python[12]: unhandled exception: DABT (lower EL), ESR 0x0000000092000006, level 2 translation fault in "
            "libnccl.so.2[ffff+1]",
            "host",
            "fail",
            "investigate",
        ),
        (
            "sxid",
            "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
            "nvswitch 0000:06:00.0",
            "fail",
            "reset_gpu",
        ),
        ("sxid", "nvidia-nvswitch1: SXid (PCI:0000", "host", "incomplete", "investigate"),
    ],
)
def test_line_and_its_part(case, expect):
    check, line, part, verdict, action = case
    found = findings(check, expect, line)
    if part is None:
        assert set(found) == {"host"}
        part = "host"
    assert (found[part].verdict, found[part].action) == (verdict, action)
    if part != "host":
        assert found["host"].verdict == "pass"


@pytest.mark.parametrize(("count", "verdict"), [(100, "pass"), (101, "fail")])
def test_corrected_pcie_errors_fail_above_the_class_limit(expect, count, verdict):
    line = "nvidia 0000:ab:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)"
    found = findings("pcie_errors", expect, *[line] * count)
    assert worst(item.verdict for item in found.values()) == verdict
    if verdict == "fail":
        assert "101 corrected PCIe errors, class limit 100" in found["gpu SXM6 0000:ab:00.0"].reason


@pytest.mark.parametrize(("downs", "apart", "verdict"), [(4, 60, "pass"), (5, 60, "fail"), (5, 21600, "pass")])
def test_link_that_flaps_within_a_day_fails(expect, downs, apart, verdict):
    text = BANNER + "".join(
        f"[{100 + index * apart}.0] mlx5_core 0000:19:00.0 ens1np0: Link down\n" for index in range(downs)
    )
    found = CHECKS["nic_log"].decide({"kernel_log": kernel_log.parse(Output(text))}, typed(expect))
    assert worst(item.verdict for item in found) == verdict
    if verdict == "fail":
        assert "link went down 5 times within 24 h, class limit 5" in found[-1].reason


# Rails 0 and 3 as rdma-core and systemd call them, a front-end interface besides; of rail 4 there are two interfaces.
NAMES = Names(
    {"0000:1a:00.0": ["rocep26s0"], "0000:5e:00.0": ["rocep94s0"]},
    {"0000:1a:00.0": ["enp26s0np0"], "0000:5e:00.0": ["enp94s0np0"], "0000:9c:00.0": ["ens1", "ens2"]},
)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("NETDEV WATCHDOG: enp26s0np0 (mlx5_core): transmit queue 3 timed out", "nic rail0"),
        ("NETDEV WATCHDOG: ens2 (mlx5_core): transmit queue 3 timed out", "nic rail4"),
        ("NETDEV WATCHDOG: eth0 (e1000e): transmit queue 3 timed out", "nic eth0"),
        ("mlx5_core 0000:5e:00.0 enp26s0np0: TX timeout detected", "nic rail3"),
        *((f"{name}: Link down", part) for name, part in (("rocep94s0", "nic rail3"), ("eth0", "nic eth0"))),
        ("enp94s0np0: Lost carrier", "nic rail3"),
        # What was true on another host: here nothing is called so.
        ("mlx5_3: Link down", "nic mlx5_3"),
    ],
)
def test_line_that_names_an_interface_or_an_rdma_device_is_its_rail_s(expect, line, part):
    expect["kernel_log"]["link_flaps_per_day"] = 1
    found = findings("nic_log", expect, line, rail_names=NAMES)
    assert {subject: item.verdict for subject, item in found.items()} == {"host": "pass", part: "fail"}
    if "0000:" not in line:
        word = line.removeprefix("NETDEV WATCHDOG: ").split()[0].rstrip(":")
        assert findings("nic_log", expect, line)[f"nic {word}"].verdict == "fail"


def test_flaps_of_a_rail_count_by_whatever_name_a_line_has(expect):
    expect["kernel_log"]["link_flaps_per_day"] = 2
    lines = ("mlx5_core 0000:5e:00.0 enp94s0np0: Link down", "rocep94s0: Link down")
    assert findings("nic_log", expect, *lines, rail_names=NAMES)["nic rail3"].verdict == "fail"


def test_stall_that_ended_passes_and_one_that_did_not_leaves_the_question_open(expect):
    lines = ["nfs: server nas1 not responding, still trying", "nfs: server nas1 OK"]
    found = findings("mount_log", expect, *lines)["host"]
    assert (found.verdict, found.action) == ("pass", "investigate")
    found = findings("mount_log", expect, *lines, "nfs: server nas2 not responding, still trying")["host"]
    assert found.verdict == "incomplete" and "nas2" in found.reason


def test_peer_of_lnet_that_does_not_take_messages_leaves_the_question_open(expect):
    line = "LNet: 2431:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx for 10.0.0.9@o2ib: 403 seconds"
    found = findings("mount_log", expect, line)["host"]
    assert found.verdict == "incomplete" and "10.0.0.9@o2ib" in found.reason
    back = "Lustre: fs-OST0002-osc-ff11: Connection restored to 10.0.0.9@o2ib (at 10.0.0.9@o2ib)"
    assert findings("mount_log", expect, line, back)["host"].verdict == "pass"


@pytest.mark.parametrize(
    ("lost", "back"),
    [
        (
            "libceph: mon2 (1)10.0.0.247:6789 session lost, hunting for new mon",
            "libceph: mon1 (1)10.0.0.249:6789 session established",
        ),
        (
            "libceph: mon0 10.0.0.9:3300 socket closed (con state CONNECTING)",
            "libceph: mon1 10.0.0.9 session established",
        ),
        ("libceph: mon2 (1)10.0.0.9:6789 connect error", "libceph: mon1 (1)10.0.0.249:6789 session established"),
        ("ceph: mds0 hung", "ceph: mds0 came back"),
        ("ceph: [fb30d64e 4711]: mds0 caps stale", "ceph: [fb30d64e 4711]: mds0 caps renewed"),
    ],
)
def test_server_of_ceph_that_does_not_answer_leaves_the_question_open_until_another_does(expect, lost, back):
    assert findings("mount_log", expect, back)["host"].reason == ""
    assert findings("mount_log", expect, lost)["host"].verdict == "incomplete"
    assert findings("mount_log", expect, lost, back)["host"].verdict == "pass"
    assert findings("mount_log", expect, lost, back, lost)["host"].verdict == "incomplete"


def test_lustre_target_that_came_back_passes(expect):
    found = findings(
        "mount_log",
        expect,
        "Lustre: fs-OST0002-osc-ff11: Connection to fs-OST0002 (at 10.0.0.1@tcp) was lost; in progress operations wait",
        "Lustre: fs-OST0002-osc-ff11: Connection restored to 10.0.0.1@tcp (at 10.0.0.1@tcp)",
    )
    assert found["host"].verdict == "pass"


def test_nvme_drive_is_named_by_its_address_where_the_log_tells_it(expect):
    found = findings(
        "nvme_log", expect, "nvme nvme3: pci function 0000:4B:00.0", "nvme nvme3: I/O 1 QID 3 timeout, aborting"
    )
    assert found["nvme 0000:4b:00.0"].verdict == "fail"


FIRMWARE = (
    "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 1",
    "{1}[Hardware Error]: event severity: SEVERITY",
    "{1}[Hardware Error]:  Error 0, type: SEVERITY",
    "{1}[Hardware Error]:   section_type: PCIe error",
    "{1}[Hardware Error]:   device_id: 0000:ab:00.0",
)


@pytest.mark.parametrize(("severity", "verdict"), [("corrected", "pass"), ("recoverable", "fail"), ("fatal", "fail")])
def test_pcie_error_that_firmware_tells(expect, severity, verdict):
    found = findings("pcie_errors", expect, *[line.replace("SEVERITY", severity) for line in FIRMWARE])
    assert worst(item.verdict for item in found.values()) == verdict
    assert findings("machine_check", expect, *FIRMWARE)["host"].verdict == "pass"


def test_memory_error_that_firmware_tells_names_the_dimm(expect):
    lines = [
        line.replace("SEVERITY", "fatal")
        .replace("PCIe error", "memory error")
        .replace("device_id: 0000:ab:00.0", "DIMM location: CPU1 DIMM_C2")
        for line in FIRMWARE
    ]
    found = findings("machine_check", expect, *lines)["dimm CPU1 DIMM_C2"]
    assert (found.verdict, found.action) == ("fail", "replace")


def test_crash_that_was_asked_for_is_no_fault_and_a_later_one_is(expect):
    asked = ["sysrq: Trigger a crash", "Kernel panic - not syncing: sysrq triggered crash"]
    assert findings("kernel_crash", expect, *asked)["host"].verdict == "pass"
    later = [*asked, *["a"] * 9, "Kernel panic - not syncing: Fatal exception"]
    assert findings("kernel_crash", expect, *later)["host"].verdict == "fail"


RESET, REBOOT, ASK = ("fail", "reset_gpu"), ("fail", "reboot"), ("fail", "investigate")
BROKEN, REMARK, NOTHING = ("fail", "replace"), ("pass", "investigate"), ("pass", "none")


@pytest.mark.parametrize("prefix", ["NVRM: ", "NVRM: GPU6 ", "NVRM "])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned",
            RESET,
        ),
        ("rpcRmApiAlloc_GSP: GspRmAlloc failed: hClient=0xc1; paramsStatus=0x00000062; status=0x00000062 ", RESET),
        ("rpcRmApiAlloc_GSP: GspRmAlloc failed: hClient=0xc1; status=0x00000065", RESET),
        # What its caller asked for in vain.
        ("rpcRmApiAlloc_GSP: GspRmAlloc failed: hClient=0xc1; status=0x00000057", REMARK),
        ("_issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!", REBOOT),
        ("nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)", REBOOT),
        ("_kgspRpcRecvPoll: GSP RM heartbeat timed out", RESET),
        ("_kgspRpcRecvPoll: LibOS heartbeat timed out", RESET),
        ("_kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 31", RESET),
        ("kgspHealthCheck_TU102: GSP-CrashCat Report", RESET),
        ("_kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP", RESET),
        ("_kgspBootGspRm: (the GPU is likely in a bad state and may need to be reset)", RESET),
        ("kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 96.00", RESET),
        ("kgspWaitForGfwBootOk_TU102: (the GPU may be in a bad state and may need to be reset)", RESET),
        ("kgspFmcReportErrorCode_GH100: Fatal GSP-FMC Error: version=0x1, partition=0x1, error code=0xaff", RESET),
        ("kfspSendBootCommands_GH100: FSP boot cmds failed. RM cannot boot.", RESET),
        ("_kgspLogXid119: ********************************* GSP Timeout **********************************", RESET),
        ("RmInitAdapter: Cannot initialize GSP firmware RM", RESET),
        ("kfspPollForQueueEmpty_IMPL: Timed out waiting for FSP command queue to be empty.", RESET),
        ("knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!", RESET),
        ("knvlinkTrainLinksToActiveAli_IMPL: Failed to change ALI Links to active!", RESET),
        ("nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.", REBOOT),
        # Nobody has said what these mean: people see them.
        ("gpuHandleSanityCheckRegReadError_GM107: bad register read: addr: 0x110094", REMARK),
        ("nvAssertFailedNoLog: Assertion failed: 0 @ kernel_gsp.c:1476", REMARK),
        ("something new has failed", REMARK),
        ("iovaspaceDestruct_IMPL: 1 left-over mappings in IOVAS 0x100", NOTHING),
    ],
)
def test_gpu_driver_s_line_without_an_xid(expect, prefix, text, answer):
    (found,) = findings("gpu_log", expect, prefix + text).values()
    assert (found.verdict, found.action) == answer


@pytest.mark.parametrize(
    ("check", "line", "answer"),
    [
        ("gpu_log", "nvidia: probe of 0000:ab:00.0 failed with error -1", REBOOT),
        ("gpu_log", "nvidia 0000:ab:00.0: probe with driver nvidia failed with error -1", REBOOT),
        ("gpu_log", "NVRM: None of the NVIDIA devices were initialized.", REBOOT),
        ("gpu_log", "NVRM: The NVIDIA probe routine was not called for 8 device(s).", ASK),
        ("gpu_log", "nvidia-uvm: something failed", REMARK),
        ("gpu_log", "NVRM: rpcRmApiControl_GSP: GspRmControl failed: cmd=0x20800a4c; status=0x00000065", RESET),
        ("gpu_log", "NVRM: Check failed: Call timed out [NV_ERR_TIMEOUT] (0x65)", ("incomplete", "investigate")),
        ("gpu_log", "NVRM: GPU 0000:ab:00.0: Failed to copy vbios to system memory.", RESET),
        (
            "gpu_log",
            "NVRM: GPU3 _threadNodeCheckTimeout: Timeout was set to: 4000 msecs!",
            ("incomplete", "investigate"),
        ),
        ("gpu_log", "NVRM: GPU3 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected.", RESET),
        ("gpu_log", "NVRM: kbusSendSysmembarSingle_GH100: - timeout error waiting for startToken = 0x3", RESET),
        ("gpu_log", "NVRM: kbusSendSysmembar_GB100: sysmembar done", NOTHING),
        ("gpu_log", "NVRM: GPU3 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.", RESET),
        ("gpu_log", "NVRM: Attempting to remove device 0000:ab:00.0 with non-zero usage count!", REBOOT),
        ("gpu_log", "NVRM: Attempting to remove minor device 3 with non-zero usage count!", REBOOT),
        ("gpu_log", "NVRM: Attempting to remove device with non-zero usage count!", REBOOT),
        ("gpu_log", "nvidia-nvswitch3: failed to initialize device", REBOOT),
        ("nic_log", "mlx5_core 0000:19:00.0: mlx5_fw_fatal_reporter_err_work: FW fatal reported", REBOOT),
        ("pcie_errors", "pci 0000:ab:00.0: BAR 1: failed to assign [mem size 0x2000000000 64bit pref]", REMARK),
        ("pcie_errors", "pcieport 0000:00:01.0: broken device, retraining non-functional downstream link", REMARK),
        ("nvme_log", "nvme nvme3: I/O Cmd(0x2) @ LBA 1, 8 blocks, I/O Error (sct 0x2 / sc 0x81) ", ("fail", "replace")),
        ("nvme_log", "nvme nvme3: failed to set APST feature (2)", REMARK),
        ("gpu_log", "nvidia-nvswitch: Version mismatch, kernel version 450.80.02 user version 450.51.06", ASK),
        ("gpu_log", "NVRM objClInitPcieChipset: *** Chipset Setup Function Error!", NOTHING),
        ("gpu_log", "nvidia: module verification failed: signature and/or required key missing", NOTHING),
        ("gpu_log", "nvidia-modeset: ERROR: GPU:0: no display", NOTHING),
        ("gpu_log", "nvidia 0000:ab:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer", NOTHING),
        ("gpu_log", "nvidia: disagrees about version of symbol module_layout", ASK),
        ("gpu_log", "nvidia_uvm: Unknown symbol set_memory_uc (err -2)", ASK),
        ("gpu_log", "nvidia: version magic '6.8.0-45 SMP mod_unload ' should be '6.8.0-48 SMP mod_unload '", ASK),
        ("gpu_log", "nvidia_drm: Unknown symbol drm_fbdev_setup (err -2)", NOTHING),
        # Without it NICs reach GPUs by dma-buf.
        ("gpu_log", "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)", REMARK),
        (
            "gpu_log",
            "NVRM: GPU 0000:ab:00.0: GPU does not have the necessary power cables connected.",
            ("fail", "reseat"),
        ),
        ("gpu_log", "NVRM: GPU 0000:ab:00.0 is already bound to vfio-pci.", ASK),
        ("nvme_log", "nvme nvme3: something went wrong: error 7", REMARK),
        ("nvme_log", "nvme: probe of 0000:03:00.0 failed with error -5", ("fail", "replace")),
        ("pcie_errors", "pcieport 0000:00:01.0: cannot do something", REMARK),
        ("pcie_errors", "pcieport 0000:00:01.0: pciehp: Slot(7): Card not present", ("fail", "reseat")),
        ("pcie_errors", "pcieport 0000:00:01.0: pciehp: Slot(7): Card present", NOTHING),
        ("pcie_errors", "pciehp 0000:00:01.0:pcie24: slot(7): Link Down event", ("fail", "reseat")),
        ("pcie_errors", "pciehp 0000:00:01.0:pcie004: Slot(7): Card not present", ("fail", "reseat")),
        ("pcie_errors", "pciehp 0000:00:01.0:pcie004: Slot(7): Link Up", NOTHING),
        # A bit of AER by its name, after the line that says how bad it is.
        ("pcie_errors", "pcieport 0000:00:01.0:    [12] Timeout", NOTHING),
        ("pcie_errors", "nvidia 0000:ab:00.0: AER: aer_uncor_severity: 0x00462030", ("fail", "reseat")),
        ("pcie_errors", "nvidia 0000:ab:00.0: AER: aer_layer=Physical Layer, aer_agent=Receiver ID", NOTHING),
        ("pcie_errors", "pcieport 0000:00:01.0: AER: Root Port link has been reset (-25)", REBOOT),
        ("pcie_errors", "pcieport 0000:00:01.0: AER: Root Port link has been reset (0)", NOTHING),
        ("pcie_errors", "pci 0000:ab:00.0: unknown header type 7f, ignoring device", REBOOT),
        ("pcie_errors", "nvidia 0000:ab:00.0: Refused to change power state, currently in D3", REBOOT),
        ("pcie_errors", "nvidia 0000:ab:00.0: refused to change power state from D3hot to D0", REBOOT),
        # A part that was to sleep and did not.
        ("pcie_errors", "xhci_hcd 0000:03:00.4: Refused to change power state from D0 to D3hot", NOTHING),
        ("machine_check", "MCE: Killing python3:4711 due to hardware memory corruption fault at 7f0a", BROKEN),
        (
            "machine_check",
            "[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[Over|UE|MiscV|AddrV|PCC|-|SyndV|UECC|-|-|-]: 0xfe2a",
            BROKEN,
        ),
        (
            "machine_check",
            "[Hardware Error]: CPU:2 (19:11:1) MC1_STATUS[-|-|MiscV|-|-|-|SyndV|Deferred]: 0x8",
            ASK,
        ),
        (
            "machine_check",
            "[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[-|CE|MiscV|-|-|-|CECC]: 0x9c",
            NOTHING,
        ),
        ("machine_check", "thermal thermal_zone0: acpitz: critical temperature reached, shutting down", ASK),
        ("machine_check", "thermal thermal_zone3: critical temperature reached (105 C), shutting down", ASK),
        ("kernel_crash", "BUG: kernel NULL pointer dereference, address: 0000000000000008", ASK),
        ("machine_check", "EDAC DEVICE0: UE: l3cache instance: cpu0 block: L3 count: 1 'x'", BROKEN),
        ("machine_check", "smpboot: do_boot_cpu failed(-1) to wakeup CPU#44", ASK),
        ("machine_check", "CPU44: failed to come online", ASK),
        ("kernel_crash", "rcu: rcu_sched kthread starved for 5000 jiffies! g1 f0x0 RCU_GP_WAIT_FQS(5)", ASK),
        ("kernel_crash", "BUG: arch topology borken", NOTHING),
        ("kernel_crash", "BUG: scheduling while atomic: nv_queue/4711/0x00000002", ASK),
        ("kernel_crash", "BUG: Bad rss-counter state mm:000000001 type:MM_FILEPAGES val:-1", ASK),
        ("kernel_crash", "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI", ASK),
        ("kernel_crash", "traps: PANIC: double fault, error_code: 0x0", ASK),
        ("kernel_crash", "INFO: task jbd2/md0-8:812 blocked in I/O wait for more than 120 seconds.", ASK),
        (
            "kernel_crash",
            "traps: a.out[4711] trap invalid opcode ip:401136 sp:7ffc error:0 in a.out",
            NOTHING,
        ),
        ("filesystem_log", "Aborting journal on device md0-8.", ASK),
        (
            "filesystem_log",
            "EXT4-fs (md0): failed to convert unwritten extents -- potential data loss!",
            ASK,
        ),
        ("filesystem_log", "EXT4-fs (md0): error count since last fsck: 12", ASK),
        ("filesystem_log", "EXT4-fs (md0): warning: mounting fs with errors, running e2fsck is recommended", ASK),
        ("filesystem_log", "EXT4-fs (md0): I/O error while writing superblock", ASK),
        ("filesystem_log", "JBD2: Error -5 detected when updating journal superblock for md0-8.", ASK),
        ("filesystem_log", "EXT4-fs (md0): orphan cleanup on readonly fs", NOTHING),
        ("filesystem_log", "XFS (md1): Metadata CRC error detected at xfs_agf_read_verify+0xd0/0xf0 [xfs]", ASK),
        ("filesystem_log", "XFS (md1): log mount/recovery failed: error -117", ASK),
        ("filesystem_log", "XFS (md1): writeback error on inode 131, offset 0, sector 8", ASK),
        ("filesystem_log", "XFS (md1): Starting recovery (logdev: internal)", NOTHING),
        ("filesystem_log", "XFS (md1): Ending clean mount", NOTHING),
        ("filesystem_log", "BTRFS: error (device sdb) in btrfs_commit_transaction:2314: errno=-5 IO failure", ASK),
        ("filesystem_log", "BTRFS info (device sdb): bdev /dev/sdb errs: wr 0, rd 7, flush 0, corrupt 0, gen 0", ASK),
        (
            "filesystem_log",
            "BTRFS info (device sdb): bdev /dev/sdb errs: wr 0, rd 0, flush 0, corrupt 0, gen 0",
            NOTHING,
        ),
        ("filesystem_log", "sd 0:0:0:0: [sda] tag#12 Sense Key : Medium Error [current]", BROKEN),
        ("filesystem_log", "sd 0:0:0:0: [sda] tag#12 Sense Key : Illegal Request [current]", NOTHING),
        ("filesystem_log", "md/raid1:md127: active with 1 out of 2 mirrors", BROKEN),
        ("filesystem_log", "md/raid:md0: raid level 5 active with 7 out of 8 devices, algorithm 2", BROKEN),
        ("filesystem_log", "md/raid1:md127: active with 2 out of 2 mirrors", NOTHING),
        ("filesystem_log", "md/raid10:md0: active with 12 out of 12 devices", NOTHING),
        ("filesystem_log", "md/raid0:md0: too few disks (7 of 8) - aborting!", BROKEN),
        ("pcie_errors", "pcieport 0000:00:01.0: bridge window [io  size 0x1000]: failed to assign", NOTHING),
        ("pcie_errors", "pcieport 0000:00:01.0: BAR 13: failed to assign [io  size 0x1000]", NOTHING),
        ("pcie_errors", "nvidia 0000:ab:00.0: AER: PCIe Bus Error: severity=Correctable, type=Physical Layer", NOTHING),
        ("nic_log", "infiniband mlx5_3: dump_cqe:272:(pid 0): dump error cqe", REMARK),
        ("nic_log", "mlx5_core 0000:19:00.0: something: (pid 3): failed to do it", REMARK),
        ("nic_log", "mlx5_core 0000:19:00.0: Port module event: module 1, Cable unplugged", NOTHING),
        ("nic_log", "mlx5_core 0000:19:00.0 rdma0: Recovered 12 eqes on EQ 0x8", REMARK),
        ("nic_log", "bnxt_en 0000:19:00.0 eth1: Firmware unresponsive, status: 0x8000", REMARK),
        ("nic_log", "bnxt_en: probe of 0000:19:00.0 failed with error -12", REBOOT),
        ("nic_log", "ice 0000:19:00.0: probe with driver ice failed with error -5", REBOOT),
        ("nic_log", "i2c_hid: probe of i2c-1 failed with error -110", NOTHING),
        ("nic_log", "e1000e 0000:00:19.0 eth0: Detected Hardware Unit Hang:", ASK),
        ("nic_log", "ixgbe 0000:03:00.0 eth1: Detected Tx Unit Hang", ASK),
        ("nic_log", "bnx2x: [bnx2x_nic_load:2727(net0)]HW init failed, aborting", REMARK),
        ("filesystem_log", "Buffer I/O error on dev sr0, logical block 0, async page read", NOTHING),
        ("filesystem_log", "Buffer I/O error on dev sdb, logical block 0, async page read", BROKEN),
        ("filesystem_log", "sd 0:0:0:0: Device offlined - not ready after error recovery", BROKEN),
        ("filesystem_log", "sd 0:0:0:0: rejecting I/O to offline device", ("incomplete", "investigate")),
        ("filesystem_log", "mpt3sas_cm0: fault_state(0x5862)!", ASK),
        ("filesystem_log", "mpt3sas_cm0: log_info(0x30030101): originator(IOP), code(0x03)", NOTHING),
        ("filesystem_log", "megaraid_sas 0000:01:00.0: FW in FAULT state, Fault code:0x10000 subcode:0x0", ASK),
        ("filesystem_log", "timeout error, dev sdb, sector 8 op 0x0:(READ) flags 0x0", BROKEN),
        ("nvme_log", "operation not supported error, dev nvme0n1, sector 0 op 0x0:(READ) flags 0x0", BROKEN),
        ("nvme_log", "operation not supported error, dev nvme0n1, sector 0 op 0x9:(WRITE_ZEROES) flags 0x8", NOTHING),
        ("nvme_log", "protection error, dev nvme0n1, sector 0 op 0x0:(READ) flags 0x0", BROKEN),
        ("mount_log", "Lustre: 3:0:(client.c:2:ptlrpc_expire_one_request()) @@@ Request sent has timed out", REMARK),
        ("mount_log", "LNet: 3:0:(o2iblnd_cb.c:1:kiblnd_check_conns()) Skipped 24 previous similar messages", NOTHING),
        ("mount_log", "LustreError: 99:0:(osc_cache.c:1141:osc_extent_make_ready()) LBUG", REBOOT),
        ("mount_log", "LNetError: 9:0:(lib-move.c:1:lnet_send()) ASSERTION( msg ) failed: ", REBOOT),
        ("nvme_log", "nvme9n1: Read(0x2) @ LBA 8, 8 blocks, Internal Error (sct 0x0 / sc 0x6) DNR ", BROKEN),
        ("nvme_log", "nvme9n1: Write(0x1) @ LBA 8, 8 blocks, Write to RO Range (sct 0x1 / sc 0x82) ", BROKEN),
        ("nvme_log", "nvme9n1: Read(0x2) @ LBA 8, 8 blocks, Host Pathing Error (sct 0x3 / sc 0x70) ", BROKEN),
        ("nvme_log", "nvme nvme9: Removing controller...", ASK),
        ("nvme_log", 'nvme nvme9: Removing ctrl: NQN "nqn.2014-08.org:a"', NOTHING),
    ],
)
def test_other_line_of_a_driver(expect, check, line, answer):
    found = [item for item in findings(check, expect, line).values() if item.reason] or [
        findings(check, expect)["host"]
    ]
    assert [(item.verdict, item.action) for item in found] == [answer]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("print_health_info:425:(pid 9): Health issue observed, firmware internal error, severity(3) ERROR:", REBOOT),
        ("print_health_info:425:(pid 9): Health issue observed, ICM fetch PCI error, severity(0) EMERGENCY:", REBOOT),
        ("print_health_info:425:(pid 9): Health issue observed, FFSER error, severity(4) WARNING:", REMARK),
        ("print_health_info:425:(pid 9): Health issue observed, HW fatal error", REBOOT),
        ("print_health_info:520:(pid 0): synd 0x1: firmware internal error", REBOOT),
        ("print_health_info:439:(pid 9): rfr 1", REBOOT),
        ("print_health_info:439:(pid 9): rfr 0", NOTHING),
        ("print_health_info:429:(pid 9): assert_var[0] 0x08040700", NOTHING),
        ("temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1", ("fail", "reseat")),
        ("Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)", ("fail", "reseat")),
        ("Port module event[error]: module 0, Cable error, Power budget exceeded", ("fail", "reseat")),
        ("set_hca_cap:622:(pid 7): handle_hca_cap failed", REBOOT),
        ("mlx5_load_one failed with error code -22", REBOOT),
        ("probe_one:1465:(pid 7): mlx5_init_one failed with error code -22", REBOOT),
        ("probe with driver mlx5_core failed with error -12", REBOOT),
        ("wait_fw_init:199:(pid 7): Firmware over 120000 MS in pre-initializing state, aborting", REBOOT),
        ("firmware version: 65535.65535.65535", REBOOT),
        ("firmware version: 28.39.1002", NOTHING),
        ("mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x0) failed", ("incomplete", "investigate")),
        ("mlx5_pci_init:901: Cannot enable PCI device, aborting", REBOOT),
        ("mlx5_pci_init:907: error requesting BARs, aborting", REBOOT),
        ("mlx5_fw_fatal_reporter_err_work:777: firmware fatal error was met", REBOOT),
        ("Local catastrophic error", REBOOT),
        ("mlx5_fw_reporters_create:9: Failed to create fw fatal reporter, err = -2", REMARK),
    ],
)
def test_nic_driver_s_line(expect, line, answer):
    found = findings("nic_log", expect, f"mlx5_core 0000:19:00.0: {line}")
    item = found.get("nic 0000:19:00.0", found["host"])
    assert (item.verdict, item.action) == answer


_DOWN = "bond0: now running without any active interface!"
_AWAY = ("nvme nvme9: starting error recovery", "nvme nvme9: Reconnecting in 10 seconds...")


@pytest.mark.parametrize(
    ("check", "part", "lines", "answer"),
    [
        ("nic_log", "host", (_DOWN,), ("incomplete", "investigate")),
        ("nic_log", "host", (_DOWN, "bond0: (slave eth1): link status definitely down, disabling slave"),
         ("incomplete", "investigate")),
        ("nic_log", "host", (_DOWN, "bond0: active interface up!"), REMARK),
        ("nic_log", "host", (_DOWN, "bond0: (slave eth1): link status definitely up, 25000 Mbps full duplex"), REMARK),
        ("nic_log", "host", (_DOWN, "bond1: active interface up!"), ("incomplete", "investigate")),
        ("nic_log", "host", (_DOWN, "bond0 (unregistering): Released all slaves"), REMARK),
        ("nvme_log", "nvme nvme9", _AWAY, ("incomplete", "investigate")),
        ("nvme_log", "nvme nvme9", (*_AWAY, "nvme nvme9: Failed reconnect attempt 1"), ("incomplete", "investigate")),
        ("nvme_log", "nvme nvme9", (*_AWAY, "nvme nvme9: Successfully reconnected (1 attempt)"), REMARK),
        ("nvme_log", "nvme nvme9", (*_AWAY, "nvme nvme8: Successfully reconnected (1 attempt)"),
         ("incomplete", "investigate")),
    ],
)  # fmt: skip
def test_what_was_lost_is_no_pass_until_it_is_back(expect, check, part, lines, answer):
    found = findings(check, expect, *lines)[part]
    assert (found.verdict, found.action) == answer


def test_health_report_of_a_mild_severity_is_not_worse_by_its_syndrome(expect):
    lines = ("Health issue observed, FFSER error, severity(5) NOTICE:", "severity 5 (NOTICE)", "synd 0xf: FFSER error")
    found = findings(
        "nic_log", expect, *(f"mlx5_core 0000:19:00.0: print_health_info:4:(pid 9): {line}" for line in lines)
    )
    assert (found["nic 0000:19:00.0"].verdict, found["nic 0000:19:00.0"].action) == REMARK


def test_probe_that_failed_is_its_nic_s(expect):
    found = findings("nic_log", expect, "mlx5_core: probe of 0000:19:00.0 failed with error -22")
    assert found["nic 0000:19:00.0"].verdict == "fail"


def test_alike_lines_that_nobody_knows_are_one_remark_with_their_number(expect):
    found = findings("gpu_log", expect, *(f"NVRM: foo: object {index:#x} failed" for index in range(30)))
    assert found["host"].reason == "not in the catalogue: 'NVRM: foo: object 0x0 failed' at 10.0, 30 times"


@pytest.mark.parametrize(("level", "told"), [("err", True), ("warn", False), ("info", False)])
def test_level_tells_an_error_where_the_log_has_it(expect, level, told):
    text = f"kern  :info  : {BANNER}kern  :{level:<5} : [   12.500000] mlx5_core 0000:19:00.0: something odd\n"
    found = CHECKS["nic_log"].decide({"kernel_log": kernel_log.parse(Output(text))}, typed(expect))
    assert any("something odd" in item.reason for item in found) == told


def test_information_that_has_a_word_of_errors_is_none(expect):
    text = f"kern  :info  : {BANNER}kern  :info  : [   12.500000] mlx5_core 0000:19:00.0: error counters are read\n"
    found = CHECKS["nic_log"].decide({"kernel_log": kernel_log.parse(Output(text))}, typed(expect))
    assert [item.reason for item in found] == [""]


@pytest.mark.parametrize(
    "form",
    ["{}: lost carrier", "host systemd-networkd[5398]: {}: Lost carrier", "mlx5_core 0000:19:00.0 {}: Link down"],
)
def test_carrier_that_is_lost_counts_however_it_is_told(expect, form):
    found = findings("nic_log", expect, *[form.format("ib6")] * 5)
    assert worst(item.verdict for item in found.values()) == "fail"


@pytest.mark.parametrize("name", ["docker0", "veth12ab34", "cali0123456789a", "br-12ab34", "lo"])
def test_carrier_of_a_container_is_no_nic_s(expect, name):
    assert set(findings("nic_log", expect, *[f"{name}: Lost carrier"] * 9)) == {"host"}


def logged(expect, *lines):
    found = CHECKS["nic_log"].decide({"kernel_log": kernel_log.parse(Output(BANNER + "".join(lines)))}, typed(expect))
    return found[-1].verdict, found[-1].reason


def change(seconds, up, port="mlx5_3: Port: 1"):
    state = ("ACTIVE" if up else "DOWN") if "Port" in port else ("up" if up else "down")
    return f"[{seconds:.3f}] mlx5_core 0000:19:00.0 {port} Link {state}\n".replace("ens1 Link", "ens1: Link")


def test_port_of_infiniband_counts_and_one_change_told_twice_is_one(expect):
    expect["kernel_log"]["link_flaps_per_day"] = 4
    twice = [change(100 * at + part, up, port) for at in range(1, 4) for up in (False, True) for part, port in (
        (0.0 + 50 * up, "ens1"), (0.01 + 50 * up, "mlx5_3: Port: 1"))]  # fmt: skip
    assert logged(expect, *twice)[0] == "pass"
    once = [change(100 * at + 50 * up, up) for at in range(1, 5) for up in (False, True)]
    assert logged(expect, *once) == ("fail", "link went down 4 times within 24 h, class limit 4")


@pytest.mark.parametrize(("ends_up", "apart", "verdict"), [(False, 5, "fail"), (True, 5, "pass"), (False, 40, "pass")])
def test_link_that_flaps_and_stays_down_fails_below_the_limit_of_a_day(expect, ends_up, apart, verdict):
    lines = [change(100 + apart * at + up, up) for at in range(3) for up in (False, True)]
    assert logged(expect, *(lines if ends_up else lines[:-1]))[0] == verdict


def judged_log(check, expect, text, stderr=""):
    given = judge({"kernel_log": Output(text, stderr)}, {"kernel_log": kernel_log}, [CHECKS[check]], typed(expect))
    return {item.subject: item for item in given.findings}


LOST = "[9.0] NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("text", "stderr"),
    [
        (LOST, ""),
        (BANNER + LOST + "[10.0] NVRM: Xi", ""),
        (BANNER + LOST + "[10.0] \ufffd\n", ""),
        (BANNER + LOST, "Journal file x.journal is truncated, ignoring file."),
    ],
)
def test_fault_in_a_log_that_is_not_whole_fails_by_name_and_silence_is_incomplete(expect, text, stderr):
    found = judged_log("xid", expect, text, stderr)
    lost = found.pop("gpu SXM6 0000:ab:00.0")
    assert (lost.verdict, lost.action) == ("fail", "reboot")
    assert lost.reason.startswith("Xid 79") and "the rest is unread: kernel_log: " in lost.reason
    assert {item.verdict for item in found.values()} == {"incomplete"}


def test_stall_without_an_end_in_a_log_that_is_not_whole_is_no_fault(expect):
    found = judged_log("mount_log", expect, "[9.0] nfs: server nas1 not responding, still trying\n")
    assert {item.verdict for item in found.values()} == {"incomplete"}
