"""Outputs that no check of burn-in judges: other stages and other machines, a directory at a time."""

from __future__ import annotations

from .row import Row

ROWS: list[Row] = []
# Outputs that came after the tables. Several of sick machines pass. Each gets its row with the change that reads it
# rightly (#17). Until then tests/oracle holds what is said of them, and its known_wrong.yml names what is wrong.
UNREAD = (
    "fabric-manager/nv-warn-nothing-to-do.log",
    "ib/iblinkinfo-edr-switch-excerpt.txt",
    "ib/ibstat-a100-ibpanic-exit255.txt",
    "kernel/dmesg-xid13-flood.log",
    "kernel/gsp-heartbeat-lost-only.log",
    "kernel/knvlink-postrxdet-failed-no-xid.log",
    "kernel/mlx5-bond-slave-flapping-3x-in-16s.log",
    "kernel/mlx5-health-issue-observed.log",
    "kernel/mlx5-hw-csum-failure.log",
    "kernel/mlx5-load-failed-handle-hca-cap.log",
    "kernel/mlx5-overheat-temp-warn-only.log",
    "kernel/nv-err-reset-required-gb200.log",
    "kernel/nv-err-reset-required-no-xid.log",
    "kernel/syslog-ib-6-flaps-1dev.log",
    "kernel/xid144-150-nonfatal-gb200.log",
    "kernel/xid45-caused-by-149-145-8gpu.log",
    "lustre/lctl-get_param-ex8761.txt",
    "mlxlink/mlxlink-faults-active-but-state-active.json",
    "nvidia-smi/qx-pro-6000-maxq-blackwell-v13.xml",
    "nvlink/v100-two-links-inactive-gpu3.txt",
    "redfish/dell-lclog.json",
    "redfish/hpe-iml.json",
    "redfish/smc821ge-health-event-log.json",
)
NOT_COVERED = {
    **dict.fromkeys(UNREAD, "no row yet: tests/oracle holds what is said of it, right or wrong (#17)"),
    "aws/": "EFA and ParallelCluster: hosts with Trainium or EFA are not examined yet",
    "ior-mdtest/": "stage storage measures with a program of its own; IOR and mdtest are not run",
    "nccom-test/": "Trainium collectives: hosts with Trainium are not examined yet",
    "neuron/": "hosts with Trainium are not examined yet",
    "slurm/": "the scheduler is asked by the gate, not by an examination of the host",
    "switch-arista/": "switches are no part of a host; their parsers read these in tests/unit/plugin_utils/switches",
    "switch-nxos/": "NX-OS is none of the systems that switch_audit asks",
    "switch-onyx/": "Onyx is none of the systems that switch_audit asks",
    "switch-sonic/": "switches are no part of a host; their parsers read these in tests/unit/plugin_utils/switches",
}
