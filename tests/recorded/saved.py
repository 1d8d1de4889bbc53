"""Outputs that no check of a host reads, as ``muster judge`` judges them: fabrics, storage, Slurm's nodes, switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved import (
    array_state,
    gpu_burn_report,
    infiniband_reports,
    lustre_health,
    nccl_debug_log,
    nccl_tests_report,
    nvidia_smi_table,
    perftest_report,
    slurm_reasons,
    switch_counters,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_text import text_of

from tests.typed import typed

from .row import Row


def _judged(kind: ModuleType, against: bool, data: bytes, expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Judge a file whose tool must be recognised by its text."""
    text = text_of(data)
    assert kind.recognises(text), f"{kind.NAME} is not recognised"
    found: Sequence[Finding] = kind.findings(text, typed(expect) if against else None)
    return found


def _row(kind: ModuleType, file: str, verdict: str, why: str = "", **expect: Any) -> Row:
    judge = partial(_judged, kind, bool(expect))
    return Row(file, "", ("saved",), verdict, expect, why, judge=judge)


_UNHELD = "no fault is seen, what it must be a class says"
_NOT_ALL = "the table leaves out what decides"
_MADE_UP = "made up upstream to show the format; as values they are a fault"
_JOBS = "how jobs ended says nothing of a node"
ROWS = [
    _row(array_state, "mdadm/mdadm-detail-md0.txt", "pass", "reshaping: a remark"),
    _row(array_state, "mdadm/mdadm-detail-md1.txt", "fail", "inactive"),
    _row(array_state, "mdadm/mdadm-detail-md2.txt", "pass"),
    _row(array_state, "mdadm/mdadm-query-raid0-ok.txt", "pass"),
    _row(array_state, "mdadm/mdadm-query-raid1-faulty.txt", "fail", "degraded"),
    _row(array_state, "mdadm/proc-mdstat-many-states.txt", "fail", "md4, md6, md7 and md42"),
    _row(lustre_health, "lustre/lctl-dl-t-edison.txt", "pass"),
    _row(lustre_health, "lustre/lctl-get_param-client-llite.txt", "pass"),
    _row(lustre_health, "lustre/lctl-get_param-ex8761.txt", "fail", "NOT HEALTHY"),
    _row(lustre_health, "lustre/lctl-get_param-unhealthy-host.txt", "fail", "three OSTs"),
    _row(lustre_health, "lustre/lnetctl-net-show.yaml", "pass"),
    _row(lustre_health, "lustre/lnetctl-stats-show.yaml", "pass"),
    _row(lustre_health, "lustre/recovery-multiple-recovering.txt", "fail", "MDT0002 is recovering"),
    _row(lustre_health, "lustre/recovery-status-ddn145.txt", "pass"),
    _row(lustre_health, "lustre/recovery-waiting-for-clients.txt", "fail", "two targets wait"),
    _row(infiniband_reports, "ib/iblinkinfo-edr-switch-excerpt.txt", "incomplete", _UNHELD),
    _row(infiniband_reports, "ib/ibnetdiscover-hdr-faked-small.txt", "incomplete", _UNHELD),
    _row(infiniband_reports, "ib/ibnetdiscover-no-links.txt", "fail", "the HCA sees no fabric"),
    _row(infiniband_reports, "ib/ibnetdiscover-p-edr.txt", "incomplete", "an excerpt: ends of links are missing"),
    _row(infiniband_reports, "ib/ibqueryerrors-sx6036-saturated-counters.txt", "fail", "ports 5 and 7"),
    _row(infiniband_reports, "ib/perfquery-rcv-error-details.txt", "pass"),
    _row(infiniband_reports, "ib/perfquery-x-switch-2ports.txt", "pass"),
    _row(perftest_report, "perftest/ib_write_bw-cx7-400g-gpudirect-mtu1024.txt", "incomplete", _UNHELD),
    _row(
        perftest_report,
        "perftest/ib_write_bw-cx7-400g-gpudirect-mtu1024.txt",
        "fail",
        "181 of 400 Gb/s",
        nic={"speed_gbps": 400},
    ),
    _row(perftest_report, "perftest/ib_write_bw-loopback-200g-8M.txt", "pass", nic={"speed_gbps": 200}),
    _row(perftest_report, "perftest/ib_write_bw-loopback-200g-all-sizes.txt", "pass", nic={"speed_gbps": 200}),
    _row(
        perftest_report,
        "perftest/ib_write_bw-roce-100g-cx5.txt",
        "incomplete",
        "92 of 100 Gb/s with one queue pair, where the class asks with four for its 96 %",
        nic={"speed_gbps": 100},
    ),
    _row(
        perftest_report,
        "perftest/ib_write_bw-roce-bidir-peak-not-measured.txt",
        "fail",
        "98 Gb/s of both ways together",
        nic={"speed_gbps": 100},
    ),
    _row(nccl_debug_log, "nccl-log/efa-p4d-mpi-prefix-excerpt.log", "incomplete", _UNHELD),
    _row(nccl_debug_log, "nccl-log/efa-p5en-nic-groups.log", "incomplete", _UNHELD),
    _row(nccl_debug_log, "nccl-log/efa-provider-missing-empty-list.log", "fail", "no device of EFA"),
    _row(nccl_debug_log, "nccl-log/net-ib-includes-bond-roce.log", "fail", "the storage bond is among the devices"),
    _row(nccl_debug_log, "nccl-tests/nccl-warn-failed-net-plugin.log", "fail", "no network"),
    _row(nccl_debug_log, "nccl-tests/nccl-warn-ib-completion-error-12.log", "fail", "transport retries exceeded"),
    _row(nccl_debug_log, "nccl-tests/pytorch-nccl-watchdog-timeout-600s.log", "fail", "a collective hung"),
    _row(nccl_tests_report, "nccl-tests/h100-nompi-16-processes-busbw-0.txt", "incomplete", "nothing was measured"),
    _row(nccl_tests_report, "nccl-tests/h100x8-crash-system-not-yet-initialized.txt", "fail", "it crashed"),
    _row(nccl_tests_report, "nccl-tests/h100-2node-allreduce-ib-xe9680-full.txt", "incomplete", _UNHELD),
    _row(nccl_tests_report, "nccl-tests/rtx3090-3node-allreduce-162-failed-sci-wrong.txt", "fail", "wrong data"),
    _row(gpu_burn_report, "gpu-burn/gpu-burn-t4-faulty.log", "fail", "FAULTY"),
    _row(
        gpu_burn_report, "other/gpu-burn-a100x8-ok.log", "incomplete", "all OK, which is a part of what a GPU must do"
    ),
    _row(nvidia_smi_table, "nvidia-smi/table-h100x8-idle-550.90.07.txt", "incomplete", _NOT_ALL),
    _row(nvidia_smi_table, "nvidia-smi/table-h100x8-looks-clean-fabricmanager-down.txt", "incomplete", _NOT_ALL),
    _row(slurm_reasons, "slurm/sacct-p-all-fields.txt", "incomplete", _JOBS),
    _row(slurm_reasons, "slurm/sacct-p-embedded-newline.txt", "incomplete", _JOBS),
    _row(slurm_reasons, "slurm/sacct-p-invalid-lines.txt", "incomplete", _JOBS),
    _row(slurm_reasons, "slurm/scontrol-nodes-26.txt", "pass"),
    _row(slurm_reasons, "slurm/scontrol-show-job-8gpu.txt", "incomplete", _JOBS),
    _row(slurm_reasons, "slurm/scontrol-show-node-aws-24.11-idle-cloud.txt", "pass"),
    _row(slurm_reasons, "slurm/scontrol-show-node-v100-17.11-mixed.txt", "pass"),
    _row(slurm_reasons, "slurm/sinfo-O-wide-gres-alloc.txt", "fail", "one node is drained"),
    _row(slurm_reasons, "slurm/sinfo-json-21.08-openapi-0.0.37.json", "fail", "one node is down"),
    _row(slurm_reasons, "slurm/sinfo-node-detail-gres-25.05.txt", "fail", "a002 is drained and silent"),
    _row(slurm_reasons, "slurm/sinfo-pipe-all-fields.txt", "fail", "node0201 is to be replaced"),
    _row(slurm_reasons, "slurm/slurmctld-nodes-not-responding.log", "fail", "slurmd does not answer"),
    _row(slurm_reasons, "slurm/slurmrest-job-2node-soperator.json", "incomplete", _JOBS),
    _row(slurm_reasons, "slurm/slurmrest-node-h100-soperator.json", "pass"),
    _row(slurm_reasons, "slurm/squeue-all-states.txt", "fail", "one job ended with NODE_FAIL"),
    _row(switch_counters, "switch-sonic/show-interfaces-counters-fec-histogram.txt", "incomplete", _UNHELD),
    _row(switch_counters, "switch-sonic/show-interfaces-counters-fec-stats.txt", "fail", "uncorrectable on two ports"),
    _row(switch_counters, "switch-sonic/show-interfaces-counters.txt", "fail", _MADE_UP),
    _row(switch_counters, "switch-sonic/show-interfaces-status.txt", "fail", "Ethernet0 is down with a module in it"),
    _row(switch_counters, "switch-sonic/show-interfaces-transceiver-eeprom-400g-cr8.txt", "incomplete", _UNHELD),
    _row(switch_counters, "switch-sonic/show-interfaces-transceiver-eeprom-dom-osfp.txt", "incomplete", _UNHELD),
    _row(switch_counters, "switch-sonic/show-interfaces-transceiver-eeprom-dom-qsfpdd.txt", "fail", _MADE_UP),
    _row(switch_counters, "switch-sonic/show-interfaces-transceiver-pm.txt", "fail", _MADE_UP),
    _row(switch_counters, "switch-sonic/show-interfaces-transceiver-status-qsfpdd.txt", "pass"),
    _row(switch_counters, "switch-sonic/show-pfc-counters-history.txt", "fail", _MADE_UP),
    _row(switch_counters, "switch-sonic/show-pfc-counters.txt", "fail", "pauses on all eight priorities"),
    _row(switch_counters, "switch-sonic/show-priority-group-drop-counters-cleared.txt", "pass"),
    _row(switch_counters, "switch-sonic/show-priority-group-drop-counters.txt", "fail", "lossless 3 and 4 drop"),
    _row(switch_counters, "switch-sonic/show-queue-counters.json", "fail", "lossless 3 and 4 drop"),
    _row(switch_counters, "switch-sonic/show-queue-counters.txt", "fail", "lossless 3 and 4 drop"),
    _row(switch_counters, "switch-sonic/show-queue-wredcounters.txt", "fail", _MADE_UP),
]
_SETTING = "a setting; switch_audit holds it against the fleet"
_INVENTORY = "an inventory, no state of a node"
NOT_COVERED = {
    "slurm/scontrol-show-config.txt": "Slurm's configuration, no state of a node",
    "slurm/scontrol-show-reservation.txt": "a reservation, no state of a node",
    "slurm/sinfo-gpu-mig-and-a100-25.11.txt": _INVENTORY,
    "slurm/sinfo-partitions-gpu-a100-25.11.txt": _INVENTORY,
    "switch-sonic/show-ecn.txt": _SETTING,
    "switch-sonic/show-lldp-table-two-macs.txt": "cabling, which the plan is needed to judge",
    "switch-sonic/show-pfc-asymmetric.txt": _SETTING,
    "switch-sonic/show-pfcwd-config.txt": _SETTING,
    "switch-sonic/show-priority-group-watermark-headroom.txt": "a high water mark: pauses worked, nothing is wrong",
    "switch-sonic/show-version.txt": "an inventory",
}
