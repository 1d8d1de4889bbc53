"""Kernel logs, and what lies beside them: how each recorded one is judged."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row


def excerpt(data: bytes) -> Output:
    """Return a part of a log as if it were a whole one: banner before it, the last line ended."""
    text = data.decode()
    return Output("[    0.000000] Linux version 0 (excerpt)\n" + text + ("" if text.endswith("\n") else "\n"))


def _row(file: str, check: str, verdict: str, why: str, **expect: Any) -> Row:
    return Row(f"kernel/{file}", "kernel_log", (check,), verdict, expect, why, excerpt)


_ALL = (
    *("filesystem_log", "gpu_log", "kernel_crash", "machine_check", "mount_log", "nic_log", "nvme_log", "oom_log"),
    *("pcie_errors", "program_crash", "sxid", "xid"),
)


def _silent(file: str, why: str) -> Row:
    """Return the row of a log in which no check finds a fault."""
    return Row(f"kernel/{file}", "kernel_log", _ALL, "pass", {}, why, excerpt)


ROWS = [
    _silent("dmesg-boot-xe9680-h100-mlx5.log", "healthy boot; the slot power warning of ConnectX-7 is harmless"),
    _row("dmesg-fsx-lustre-ost-lost-rc19.log", "mount_log", "incomplete", "storage lost, and the log ends there"),
    _row("dmesg-iso-xid13-xid43-and-oom.log", "xid", "pass", "one program's illegal address (13, 43): restart it"),
    _row(
        "dmesg-iso-xid13-xid43-and-oom.log", "oom_log", "fail", "the host ran out of memory, not only a control group"
    ),
    _row("dmesg-mlx5-limited-gen3-x8.log", "nic_log", "fail", "NIC at half its PCIe width"),
    _row("dmesg-nfs-not-responding-then-ok.log", "mount_log", "pass", "a stall of 108 s that ended"),
    _row("dmesg-nvidia-peermem-invalid-context.log", "gpu_log", "fail", "GPUDirect RDMA trouble"),
    _row("dmesg-segfault-libnccl.log", "program_crash", "fail", "NCCL crashed"),
    _row("dmesg-xid48-63-94-h100-contained-ecc.log", "xid", "fail", "double-bit error, row remapped: reset"),
    _row("dmesg-xid48-63-94-h100-contained-ecc.log", "gpu_log", "fail", "nvidia-peermem errors around it"),
    _row("edac-skx-ce-flood-overflow.log", "machine_check", "fail", "16,384 corrected errors, overflow"),
    _row("dmesg-xid13-flood.log", "xid", "pass", "one program's illegal addresses, of a process without a name: watch"),
    _row("gsp-heartbeat-lost-only.log", "gpu_log", "fail", "the GPU's GSP is dead"),
    _silent("kmsg-raw-format-nvswitch-open.log", "healthy; raw records"),
    _row("knvlink-postrxdet-failed-no-xid.log", "gpu_log", "fail", "NVLink driver wedged, without an Xid"),
    _row(
        "mlx5-bond-slave-flapping-3x-in-16s.log", "nic_log", "fail", "a link down three times in 16 s, and at the end"
    ),
    _row("mlx5-health-issue-observed.log", "nic_log", "fail", "internal error of the NIC's firmware"),
    _row("mlx5-hw-csum-failure.log", "nic_log", "pass", "NIC and kernel disagree on a checksum: watch"),
    _row("mlx5-load-failed-handle-hca-cap.log", "nic_log", "fail", "the driver could not start the NIC"),
    _row("mlx5-overheat-temp-warn-only.log", "nic_log", "fail", "both ports of a NIC report their chip too hot"),
    _row("nv-err-reset-required-gb200.log", "gpu_log", "fail", "a GPU needs a reset, without an Xid"),
    _row("nv-err-reset-required-no-xid.log", "gpu_log", "fail", "a GPU needs a reset, without an Xid"),
    _row("mlx5-error-lines.log", "nic_log", "fail", "hot module, failed register access; the power line is harmless"),
    _row("nhc-xid119-gsp-timeout.log", "xid", "fail", "GSP timeout"),
    _row("nvrm-fallen-off-bus-no-xid-b200.log", "xid", "fail", "GPU off the bus without an Xid"),
    _row("pcie-dpc-aer-mlx5-recovery-failed.log", "pcie_errors", "fail", "uncorrected PCIe error, recovery failed"),
    _row("pcie-dpc-aer-mlx5-recovery-failed.log", "nic_log", "fail", "the NIC behind it is gone"),
    _row(
        "pcie-limited-by-gen4-switch-h100.log", "pcie_errors", "fail", "two GPUs of a Gen5 class behind a Gen4 switch"
    ),
    _row("pstore-dmesg-erst.txt", "kernel_crash", "pass", "a crash that was asked for by sysrq"),
    _row("sxid11004-acl-wrong-partition.log", "sxid", "fail", "GPUs of two partitions: investigate, no RMA"),
    _silent("syslog-ib-0-flaps.log", "healthy; no line is the kernel's"),
    _row("syslog-ib-6-flaps-1dev.log", "nic_log", "fail", "ib6 lost its carrier six times"),
    _row("xid-lines-from-public-threads.log", "xid", "fail", "48, 74, 79 and 119 among others"),
    _row("xid144-150-nonfatal-gb200.log", "xid", "pass", "NVLink events that the driver calls non-fatal: watch"),
    _row("xid45-caused-by-149-145-8gpu.log", "xid", "fail", "the driver names NVLink faults as the cause"),
    _row("xid149-154-nvlink5-burst-gb200.log", "xid", "fail", "NVLink down, the driver asks for a reset"),
    _row("xid63-row-remap-marked-a100.log", "xid", "fail", "row remap waits for a reset"),
    _row("xid74-nvlink-fatal-h100-registers.log", "xid", "fail", "fatal NVLink error"),
    _row("xid79-with-sxid20034-h100-nvswitch.log", "xid", "fail", "GPU off the bus"),
    _row("xid79-with-sxid20034-h100-nvswitch.log", "sxid", "fail", "links of three switches down, fatal"),
]

_COUNTS = "counts since the mount or boot; how many retransmissions are too many nobody states"
NOT_COVERED = {
    "nfs/proc-mountstats-node_exporter.txt": _COUNTS,
    "nfs/proc-net-rpc-nfs.txt": _COUNTS,
    "nfs/proc-self-mountstats.txt": _COUNTS,
}
